"""Members that handle messages in parallel, and join and leave their group meanwhile."""

import random
import threading
import time
from collections import Counter, defaultdict

import pytest

from pyklient import Admin, ConsumerConnector, Message, Producer, TopicPartition
from tests.run.seed import seed
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.process import wait_until
from tests.system.reading import connector

_PARTITIONS, _KEYS, _COUNT = 6, 50, 2_500


class Handled:
    """What all members have handled, in order, and what was wrong with it."""

    def __init__(self) -> None:
        self.counts: Counter[int] = Counter()
        self.problems: list[str] = []
        self._last: dict[bytes, int] = defaultdict(lambda: -1)
        self._running: set[bytes] = set()
        self._lock = threading.Lock()

    def __call__(self, message: Message) -> None:
        key, number = message.key, int(message.value or b"")
        assert key is not None
        with self._lock:
            if key in self._running:
                self.problems.append(f"{key!r} was handled twice at the same time, at {number}")
            if number <= self._last[key]:
                self.problems.append(f"{key!r}: {number} came after {self._last[key]}")
            self._running.add(key)
            self._last[key] = number
        time.sleep(0.004)
        with self._lock:
            self._running.discard(key)
            self.counts[number] += 1

    def wait(self, count: int) -> None:
        """Return once *count* messages have been handled."""
        wait_until(lambda: self.counts.total() >= count, 60, f"{count} messages")


class Member:
    """A connector with its own run."""

    def __init__(self, bootstrap: str, group: str, topic: str, handled: Handled, strategy: str) -> None:
        self.connector: ConsumerConnector = connector(
            bootstrap,
            group,
            heartbeat_interval_ms=100,
            partition_assignment_strategy=strategy,
            max_partition_fetch_bytes=2_000,
        )
        self._made = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(topic, handled))
        self._thread.start()

    def _run(self, topic: str, handled: Handled) -> None:
        try:
            with self.connector:
                consumer = self.connector.parallel(topic, handled, workers=4, max_in_hand=200)
                self._made.set()
                consumer.run()
        except Exception as error:
            self._error = error

    def leave(self) -> None:
        assert self._made.wait(30), self._error
        self.connector.close()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if self._error is not None:
            raise self._error


@pytest.mark.slow
@pytest.mark.brokers(min="4.3")
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_members_that_come_and_go_handle_each_message_once_and_in_order(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, strategy: str
) -> None:
    rng, handled = random.Random(seed()), Handled()
    topic, group = new_topic(partitions=_PARTITIONS), new_name()
    with Producer(bootstrap) as producer:
        keys = [b"key-%d" % rng.randrange(_KEYS) for _ in range(_COUNT)]
        producer.send_many(topic, [b"%d" % number for number in range(_COUNT)], keys=keys).result(30)
    members = [Member(bootstrap, group, topic, handled, strategy)]
    try:
        for step in range(1, 5):
            handled.wait(step * _COUNT // 6)
            if len(members) > 1 and rng.random() < 0.5:
                members.pop(rng.randrange(len(members))).leave()
            else:
                members.append(Member(bootstrap, group, topic, handled, strategy))
        handled.wait(_COUNT)
    finally:
        for member in members:
            member.leave()
    assert handled.problems == []
    assert handled.counts == Counter(range(_COUNT))
    with Admin(bootstrap) as admin:
        stored = admin.group_offsets(group)
    assert sum(at.offset for at in stored.values()) == _COUNT
    assert all(at.metadata == "" for at in stored.values())
    assert stored.keys() <= {TopicPartition(topic, number) for number in range(_PARTITIONS)}

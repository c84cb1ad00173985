"""Rebalances while a handler or a listener is slow: nothing comes twice, and nobody loses its membership."""

import threading
from typing import Any

import pytest

from pyklient import Admin, ConsumerConnector, Message, Producer
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed
from tests.servers.process import wait_until
from tests.system.reading import connector, wait_assigned

SESSION = 2.5
"""Seconds without a heartbeat after which the group removes a member."""
SLOW = 1.5 * SESSION
QUICK: dict[str, Any] = {
    "session_timeout_ms": int(SESSION * 1000),
    "heartbeat_interval_ms": 200,
    "rebalance_timeout_ms": 30_000,
    "consumer_timeout_ms": -1,
}


class Reader:
    """Reads a connector's stream in a thread; *slow* is how long it stays with each message, in seconds."""

    def __init__(self, member: ConsumerConnector, topic: str, slow: float = 0, batches: bool = False) -> None:
        self.seen: list[bytes] = []
        self.handled: list[bytes] = []
        self._slow = slow
        stream = member.stream(topic)
        loop = stream.batches(max_records=10, timeout=None) if batches else ([each] for each in stream)
        self._thread = threading.Thread(target=self._run, args=(loop,))
        self._thread.start()

    def _run(self, loop: Any) -> None:
        for messages in loop:
            self._handle(messages)

    def _handle(self, messages: list[Message]) -> None:
        values = [each.value for each in messages]
        self.seen += values
        threading.Event().wait(self._slow)
        self.handled += values

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


class Slow:
    """A listener that blocks for longer than the session lasts."""

    def __init__(self) -> None:
        self.rebalances = 0

    def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
        if owned and self.rebalances == 1:
            threading.Event().wait(SLOW)

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
        self.rebalances += 1
        if self.rebalances == 2:
            threading.Event().wait(SLOW)


def member_ids(bootstrap: str, group: str) -> dict[str, str]:
    """Client id → member id."""
    with Admin(bootstrap) as admin:
        return {each.client_id: each.member_id for each in admin.describe_group(group).members}


def send(bootstrap: str, topic: str, value: bytes, partition: int) -> None:
    with Producer(bootstrap) as producer:
        producer.send(topic, value, partition=partition)


@pytest.mark.slow
@pytest.mark.parametrize("batches", [False, True])
def test_a_message_in_hand_for_longer_than_the_session_comes_once_though_a_member_joins(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, batches: bool
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    send(bootstrap, topic, b"one", partition=1)
    with (
        connector(bootstrap, group, client_id="a", **QUICK) as first,
        connector(bootstrap, group, client_id="b", **QUICK) as second,
    ):
        slow = Reader(first, topic, slow=SLOW, batches=batches)
        wait_until(lambda: bool(slow.seen), 60, "the message is in hand")
        before = member_ids(bootstrap, group)["a"]
        other = Reader(second, topic)
        assert slow.handled == [b"one"], "the group waits for the handler"
        assert wait_assigned(bootstrap, group, members=2, partitions=2) == {"a": {0}, "b": {1}}
        assert member_ids(bootstrap, group)["a"] == before
        assert committed(bootstrap, group, topic)[1] == 1
        send(bootstrap, topic, b"two", partition=1)
        wait_until(lambda: bool(other.seen), 60, "the next message")
        assert (slow.seen, other.seen) == ([b"one"], [b"two"])
    slow.join()
    other.join()


@pytest.mark.slow
def test_a_listener_slower_than_the_session_costs_no_membership(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    listener = Slow()
    with connector(bootstrap, group, client_id="a", **QUICK) as first:
        first.set_rebalance_listener(listener)
        one = Reader(first, topic)
        before = member_ids(bootstrap, group)
        with connector(bootstrap, group, client_id="b", **QUICK) as second:
            two = Reader(second, topic)
            wait_assigned(bootstrap, group, members=2, partitions=2)
            for partition in range(2):
                send(bootstrap, topic, b"%d" % partition, partition)
            wait_until(lambda: (one.seen, two.seen) == ([b"0"], [b"1"]), 60, "both are read")
            assert member_ids(bootstrap, group)["a"] == before["a"]
            assert listener.rebalances == 2
        two.join()
    one.join()

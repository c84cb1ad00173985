"""A group that reads all the time while its offsets move between Kafka and ZooKeeper: its members, records
that are written meanwhile, and a look at both storages."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Final

from pyklient import ClosedError, ConsumerConnector, Producer, TopicPartition
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from tests.consumer.offsets.stores import open_store
from tests.servers.process import wait_until
from tests.servers.zookeeper_kafka import ZooKeeperKafka

__all__ = ["PARTITIONS", "QUICK", "Load", "Member", "Options", "Watch", "loaded", "seen", "watched"]

PARTITIONS: Final = 6
_PAUSE: Final = 0.002

Options = Mapping[str, Any]

QUICK: Final[Options] = {
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 50,
    "heartbeat_interval_ms": 100,
    "session_timeout_ms": 6_000,
    "rebalance_backoff_ms": 200,
    "rebalance_max_retries": 50,
}


class Member:
    """A member of the group, with a thread that reads."""

    def __init__(self, topic: str, options: Options) -> None:
        self.seen: list[tuple[int, int]] = []
        self._topic = topic
        self._connector = ConsumerConnector(**options)
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def leave(self) -> None:
        self._connector.close()
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _read(self) -> None:
        with suppress(ClosedError):  # the member leaves before it has got its stream
            for message in self._connector.stream(self._topic):
                self.seen.append((message.partition, message.offset))


class Load:
    """A thread that writes to each partition in turn, until it is paused."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self.ends = [0] * PARTITIONS
        self._producer, self._topic = producer, topic
        self._running = threading.Event()
        self._idle = threading.Event()
        self._over = False
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def go_on(self) -> None:
        self._idle.clear()
        self._running.set()

    def pause(self) -> None:
        """Stop writing. Return when all records are stored."""
        self._running.clear()
        assert self._idle.wait(20)
        self._producer.flush()

    def write_more(self, count: int) -> None:
        """Write *count* records or more."""
        wanted = sum(self.ends) + count
        self.go_on()
        wait_until(lambda: sum(self.ends) >= wanted, 60, "more load")
        self.pause()

    def end(self) -> None:
        self._over = True
        self._running.set()
        self._thread.join(30)

    def _write(self) -> None:
        partition = 0
        while not self._over:
            if not self._running.is_set():
                self._idle.set()
                self._running.wait(1)
                continue
            partition = (partition + 1) % PARTITIONS
            self._producer.send(self._topic, b"x", partition=partition)
            self.ends[partition] += 1
            time.sleep(_PAUSE)


class Watch:
    """A thread that looks at both stores all the time, and notes where an offset goes back."""

    def __init__(self, stores: Mapping[str, OffsetStorage], topic: str) -> None:
        self.went_back: list[object] = []
        self.looks = 0
        self._stores = stores
        self._partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        self._last = {name: [0] * PARTITIONS for name in stores}
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def offsets(self, name: str) -> list[int]:
        """Return the offset of each partition in the store *name*, 0 where it has none."""
        found = self._stores[name].fetch(self._partitions, 20.0)
        return [0 if (at := found[each]) is None else at.offset for each in self._partitions]

    def wait_at(self, name: str, ends: list[int]) -> None:
        """Return when the offsets in the store *name* are *ends*."""
        wait_until(lambda: self.offsets(name) == ends, 60, f"{ends} in {name}")

    def end(self) -> None:
        self._over.set()
        self._thread.join(30)

    def _look(self) -> None:
        while not self._over.wait(0.02):
            for name in self._stores:
                found = self.offsets(name)
                back = [pair for pair in zip(self._last[name], found, strict=True) if pair[1] < pair[0]]
                self.went_back += [(name, *pair) for pair in back]
                self._last[name] = found
            self.looks += 1


@contextmanager
def watched(broker: ZooKeeperKafka, group: str, topic: str) -> Iterator[Watch]:
    with ExitStack() as stack:
        kinds = ("kafka", "zookeeper")
        watch = Watch({kind: stack.enter_context(open_store(broker, kind, group)) for kind in kinds}, topic)
        stack.callback(watch.end)
        yield watch


@contextmanager
def loaded(broker: ZooKeeperKafka, topic: str) -> Iterator[Load]:
    with Producer(broker.bootstrap_servers, linger_ms=0) as producer:
        load = Load(producer, topic)
        try:
            yield load
        finally:
            load.end()


def seen(members: list[Member]) -> int:
    """Return how many messages *members* have seen."""
    return sum(len(member.seen) for member in members)

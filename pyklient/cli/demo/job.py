"""The job of the demo: one thread produces messages about flights, two members of a group read them, and a
third member joins half-way.

Producing starts when the first two members have joined. The last quarter of the messages is not produced
until the third member has joined. Otherwise this member would find nothing left to read on a fast machine.

Each thread counts what it has produced or read. Until all threads have ended, the thread that runs the job
only shows the numbers of messages. Then it compares the counts of all threads.
"""

import logging
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, Thread
from typing import Any, Final

from pyklient.admin import Admin, PartitionLag
from pyklient.cli.cluster_options import ClusterOptions
from pyklient.cli.demo.flights import Flights
from pyklient.cli.demo.tally import Seen, Tally, fingerprint, merge
from pyklient.config import AdminConfig, ConsumerConfig, ProducerConfig
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.errors import KafkaError, KafkaTimeoutError
from pyklient.producer.producer import Producer
from pyklient.topic_partition import TopicPartition

__all__ = ["Outcome", "Progress", "run_job"]

_log = logging.getLogger("pyklient.cli")

_PARTITIONS: Final = 8
_MEMBERS: Final = 3
_BLOCK: Final = 2_000
_LOOK: Final = 0.1
_STUCK: Final = 60.0
_END: Final = 10.0


@dataclass(frozen=True)
class Progress:
    """The number of records produced so far, and the number that each reader has got so far."""

    produced: int
    read: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """The counts of the demo, made when all its threads have ended.

    ``again`` has the number of repeated messages by key. ``changed`` is the number of messages that two
    readers got with different content. ``by_reader`` has the number of messages of each reader.
    """

    topic: str
    sent: Tally
    read: Tally
    again: Counter[bytes]
    changed: int
    by_reader: tuple[int, ...]
    lags: Mapping[TopicPartition, PartitionLag]
    stored: int
    produce_seconds: float
    read_seconds: float

    @property
    def lost(self) -> int:
        """The number of messages that no reader got."""
        return sum((self.sent.counts - self.read.counts).values())

    @property
    def holds(self) -> bool:
        """True if the readers got exactly the messages that were produced, and the group has committed all of
        them."""
        keys = self.sent.counts.keys() | self.read.counts.keys()
        return (
            all(self.sent.agrees(self.read, key) for key in keys)
            and not self.changed
            and self.stored == self.sent.counts.total()
            and self.committed == self.stored
        )

    @property
    def committed(self) -> int:
        """The sum of the committed offsets. It is a number of messages, because each partition starts at
        offset 0."""
        return sum(lag.committed or 0 for lag in self.lags.values())

    @property
    def lag(self) -> int:
        """The number of messages that the group has not committed."""
        return self.stored - self.committed

    @property
    def produce_rate(self) -> float:
        """The records produced per second, from the first ``send`` to the last confirmation. The time spent
        waiting for the third member does not count."""
        return self.sent.counts.total() / self.produce_seconds if self.produce_seconds else 0.0

    @property
    def read_rate(self) -> float:
        """The records per second that the group read, from its first message to its last."""
        return sum(self.by_reader) / self.read_seconds if self.read_seconds else 0.0

    def what_is_wrong(self) -> str:
        """Return a sentence with the differences between the messages produced and the messages read."""
        keys = sorted(self.sent.counts.keys() | self.read.counts.keys())
        differ = [key.decode(errors="replace") for key in keys if not self.sent.agrees(self.read, key)]
        return (
            f"{self.lost:,} lost, {self.changed:,} changed between two deliveries, lag {self.lag:,}, "
            f"content differs for {', '.join(differ) or 'no carrier'}"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as a dict for ``json.dumps``."""
        carriers = {
            key.decode(): {
                "produced": count,
                "consumed": self.read.counts[key],
                "again": self.again[key],
                "same_content": self.sent.agrees(self.read, key),
            }
            for key, count in sorted(self.sent.counts.items())
        }
        return {
            "holds": self.holds,
            "produced": self.sent.counts.total(),
            "consumed": self.read.counts.total(),
            "lost": self.lost,
            "again": self.again.total(),
            "lag": self.lag,
            "records_per_second": {"produced": round(self.produce_rate), "read": round(self.read_rate)},
            "by_reader": list(self.by_reader),
            "carriers": carriers,
        }


def run_job(
    flights: Flights, cluster: ClusterOptions, watch: Callable[[Progress], None], *, keep: bool = False
) -> Outcome:
    """Run the job of the demo on *cluster*, with a new topic and a new group.

    Delete the topic and the group at the end, unless *keep* is true. Call *watch* every tenth of a second.
    Raises the error of a thread, and KafkaTimeoutError if there is no progress for a minute.
    """
    name = f"nycflights13-{uuid.uuid4().hex[:8]}"
    with Admin(**cluster.options(AdminConfig)) as admin:
        admin.create_topic(name, partitions=_PARTITIONS, replication_factor=-1)
        job = _Job(flights, cluster, admin, name)
        try:
            return job.run(watch)
        finally:
            job.end()
            if not keep:
                _remove(admin, name)


def _remove(admin: Admin, name: str) -> None:
    for remove in (admin.delete_group, admin.delete_topic):
        try:
            remove(name)
        except KafkaError as error:
            # Not raised, because it would hide an error of the job.
            _log.warning("the demo could not remove its topic or its group: %s", error)


class _Worker(ABC):
    """A thread that does a part of the job. It records its error, the time of its start and the time of its
    last progress."""

    def __init__(self, name: str) -> None:
        self.error: BaseException | None = None
        self.started = self.moved = 0.0
        self.thread = Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        try:
            self.work()
        except BaseException as error:
            self.error = error

    @abstractmethod
    def work(self) -> None:
        """Do the thread's work. Return when the work is done, or when another thread asks this thread to
        stop."""

    @property
    def seconds(self) -> float:
        return self.moved - self.started


class _Source(_Worker):
    """The thread that produces the flights."""

    def __init__(self, flights: Flights, topic: str, options: dict[str, Any]) -> None:
        super().__init__("demo-source")
        self.sent = Tally()
        self.produced = 0
        self.stopping = False
        self.group_is_whole = Event()
        self._flights, self._topic, self._options = flights, topic, options

    def work(self) -> None:
        last_quarter = max(1, self._flights.count * 3 // 4)
        self.started = time.perf_counter()
        with Producer(**self._options) as producer:
            for key, value in self._flights:
                if self.produced == last_quarter:
                    self._wait_for_the_group(producer)
                self.sent.add(key, fingerprint(key, value))
                producer.send(self._topic, value, key=key)
                self.produced += 1
                if self.stopping:
                    break
        self.moved = time.perf_counter()

    def _wait_for_the_group(self, producer: Producer) -> None:
        producer.flush(_STUCK)
        since = time.perf_counter()
        self.group_is_whole.wait(_STUCK)
        self.started += time.perf_counter() - since


class _Reader(_Worker):
    """A thread that is one member of the group, and reads the flights."""

    def __init__(self, name: str, topic: str, options: dict[str, Any]) -> None:
        super().__init__(f"demo-{name}")
        self.seen = Seen()
        self.joined = False
        self._topic = topic
        self.connector = ConsumerConnector(**options)

    def work(self) -> None:
        with self.connector as connector:
            stream = connector.stream(self._topic)
            self.joined = True
            for batch in stream.batches(max_records=_BLOCK, timeout=_LOOK):
                if batch:
                    self.started = self.started or time.perf_counter()
                    self.seen.add(batch)
                    self.moved = time.perf_counter()


class _Job:
    def __init__(self, flights: Flights, cluster: ClusterOptions, admin: Admin, name: str) -> None:
        self._flights, self._cluster, self._admin, self._name = flights, cluster, admin, name
        own = {"compression_type": "zstd", "client_id": "demo-source"}
        self._source = _Source(flights, name, cluster.options(ProducerConfig, **own))
        self._readers: list[_Reader] = []
        self._partitions = [TopicPartition(name, number) for number in range(_PARTITIONS)]

    def run(self, watch: Callable[[Progress], None]) -> Outcome:
        """Produce, read, and wait until the group has committed everything."""
        for _ in range(_MEMBERS - 1):
            self._join()
        moved, before = time.monotonic(), Progress(0, ())
        while not self._complete():
            time.sleep(_LOOK)
            now = self._progress()
            watch(now)
            self._go_on(now)
            if now != before:
                moved, before = time.monotonic(), now
            elif time.monotonic() - moved > _STUCK:
                raise KafkaTimeoutError(
                    f"the demo made no progress for {_STUCK:.0f} s: {now.produced:,} records were produced, "
                    f"{sum(now.read):,} were read"
                )
        self.end()
        watch(self._progress())
        return self._outcome()

    def end(self) -> None:
        """Stop producing, let the members leave the group, and wait for the threads for a limited time."""
        self._source.stopping = True
        self._source.group_is_whole.set()
        for reader in self._readers:
            reader.connector.shutdown()
        for worker in (self._source, *self._readers):
            if worker.thread.ident is not None:
                worker.thread.join(_END)

    def _go_on(self, now: Progress) -> None:
        """Begin the next part of the job if the progress *now* allows it: start to produce when two members
        have joined, and let the third member join when half of the flights are produced."""
        joined = sum(reader.joined for reader in self._readers)
        if joined == _MEMBERS:
            self._source.group_is_whole.set()
        elif joined == _MEMBERS - 1 and self._source.thread.ident is None:
            self._source.thread.start()
        elif len(self._readers) < _MEMBERS and now.produced >= self._flights.count / 2:
            self._join()

    def _join(self) -> None:
        number = len(self._readers) + 1
        own = {
            "group_id": self._name,
            "client_id": f"demo-reader-{number}",
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 500,
            "heartbeat_interval_ms": 250,
        }
        reader = _Reader(f"reader-{number}", self._name, self._cluster.options(ConsumerConfig, **own))
        self._readers.append(reader)
        reader.thread.start()

    def _progress(self) -> Progress:
        return Progress(self._source.produced, tuple(reader.seen.handed for reader in self._readers))

    def _complete(self) -> bool:
        """Return True if all members have joined, and all messages are read and committed.

        Raises the error of a thread that has failed.
        """
        for worker in (self._source, *self._readers):
            if worker.error is not None:
                raise worker.error
        joined = [reader for reader in self._readers if reader.joined]
        if self._source.thread.is_alive() or len(joined) < _MEMBERS:
            return False
        if sum(self._progress().read) < self._source.produced:
            return False
        lags = self._admin.group_lag(self._name)
        return sum(lag.committed or 0 for lag in lags.values()) == self._source.produced

    def _outcome(self) -> Outcome:
        read, again, changed = merge(reader.seen for reader in self._readers)
        readers = [reader for reader in self._readers if reader.started]
        return Outcome(
            topic=self._name,
            sent=self._source.sent,
            read=read,
            again=again,
            changed=changed,
            by_reader=self._progress().read,
            lags=self._admin.group_lag(self._name),
            stored=sum(self._admin.end_offsets(self._partitions).values()),
            produce_seconds=self._source.seconds,
            read_seconds=max(r.moved for r in readers) - min(r.started for r in readers) if readers else 0.0,
        )

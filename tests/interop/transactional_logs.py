"""Logs with random transactions of librdkafka's producers, and every way in which pyklient reads them."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final, NamedTuple

import confluent_kafka

from pyklient import ConsumerConnector, ConsumerTimeout, Message, SimpleConsumer, TopicPartition, read
from tests.interop.transactions import TIMEOUT, transactional
from tests.oracles.process import Oracle

__all__ = ["FORMS", "Found", "RandomLog", "javas", "librdkafkas"]

_PATIENCE: Final = 60.0
_QUICK: Final[dict[str, Any]] = {"fetch_max_wait_ms": 20}
_CODECS: Final = ("none", "gzip", "snappy", "lz4")


class Found(NamedTuple):
    """A record as a reader has found it."""

    offset: int
    key: bytes | None
    value: bytes | None


class Writer:
    """A producer that writes transactions to partition 0 of *topic*. With *name* None, it has none.

    The records of its committed transactions are added to *committed*, by offset.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        name: str | None,
        codec: str,
        rng: random.Random,
        committed: dict[int, Found],
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._name = name
        self._codec = codec
        self._rng = rng
        self._committed = committed
        self._sent: list[Found] = []
        self._open = False
        self._producer = self._new()

    def step(self) -> None:
        """Do something at random: send a few records, or begin, end or abandon a transaction."""
        if self._name is None:
            self._send()
            self._keep()
        elif not self._open:
            self._begin()
        else:
            self._rng.choice((self._send, self._send, self._commit, self._abort, self._abandon))()

    def end(self) -> None:
        """End the open transaction, if there is one."""
        if self._open:
            self._rng.choice((self._commit, self._abort))()

    def leave_open(self) -> None:
        """Leave a transaction open that has records."""
        self.end()
        self._begin()

    def _begin(self) -> None:
        self._producer.begin_transaction()
        self._open = True
        self._send()

    def _send(self) -> None:
        for _ in range(self._rng.choice((1, 1, 2, 30))):
            value = self._rng.randbytes(self._rng.randrange(100)) if self._rng.randrange(8) else None
            key = b"%d" % self._rng.randrange(9)
            self._producer.produce(
                self._topic, key=key, value=value, partition=0, on_delivery=self._delivered
            )
        assert self._producer.flush(TIMEOUT) == 0

    def _delivered(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        self._sent.append(Found(offset, message.key(), message.value()))

    def _commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT)
        self._open = False
        self._keep()

    def _keep(self) -> None:
        self._committed.update((each.offset, each) for each in self._sent)
        self._sent = []

    def _abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT)
        self._open, self._sent = False, []

    def _abandon(self) -> None:
        """Leave the open transaction to a successor. The broker aborts it with a higher producer epoch."""
        self._producer = self._new()
        self._open, self._sent = False, []

    def _new(self) -> confluent_kafka.Producer:
        if self._name is None:
            return confluent_kafka.Producer(
                {"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "log_level": 0}
            )
        return transactional(self._bootstrap, self._name, compression_type=self._codec)


class RandomLog:
    """The log of partition 0 of *topic*, which several interleaved producers write.

    ``committed`` has the records of committed transactions, by offset.
    """

    def __init__(self, bootstrap: str, topic: str, rng: random.Random) -> None:
        self.committed: dict[int, Found] = {}
        self._rng = rng
        names: list[str | None] = [None, *(f"{topic}-{number}" for number in range(3))]
        self._writers = [
            Writer(bootstrap, topic, name, rng.choice(_CODECS), rng, self.committed) for name in names
        ]

    def step(self) -> None:
        """Let one of the producers do something at random."""
        self._rng.choice(self._writers).step()

    def leave_open(self) -> None:
        """Leave one transaction open, and end those of the other producers after its beginning."""
        *others, last = self._writers
        last.leave_open()
        for writer in others:
            writer.step()
            writer.end()

    def end(self) -> None:
        """End all transactions."""
        for writer in self._writers:
            writer.end()


def javas(oracle: Oracle, bootstrap: str, topic: str, start: int, level: str, size: int) -> list[Found]:
    """Return what Java's consumer reads from partition 0, with fetches of at most *size* bytes."""
    [line] = oracle.ask([f"{bootstrap} {topic} 0 {start} {level} {size}"])
    assert not line.startswith("!"), line
    _, *records = line.split()
    found = []
    for offset, _, record in (each.partition("=") for each in records):
        key, _, value = record.partition(":")
        found.append(Found(int(offset), _bytes(key), _bytes(value)))
    return found


def _bytes(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text)


def librdkafkas(bootstrap: str, topic: str, start: int, level: str) -> list[Found]:
    """Return what librdkafka's consumer reads from partition 0, up to the end that it sees."""
    found: list[Found] = []
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-librdkafka",
            "isolation.level": level,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, start)])
        while (message := consumer.poll(_PATIENCE)) is not None:
            if (error := message.error()) is not None:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF, error
                return found
            offset = message.offset()
            assert offset is not None
            found.append(Found(offset, message.key(), message.value()))
        raise AssertionError("librdkafka's consumer has not come to the end")
    finally:
        consumer.close()


# Each way to read with pyklient returns what it has read from *start* to *end*.


def _by_read(bootstrap: str, where: TopicPartition, start: int, end: int, **options: Any) -> list[Found]:
    return [_found(each) for each in read(bootstrap, where.topic, start={where: start}, **options)]


def _by_arrow_read(
    bootstrap: str, where: TopicPartition, start: int, end: int, **options: Any
) -> list[Found]:
    table = read(bootstrap, where.topic, start={where: start}, **options).to_arrow()
    return [Found(row["offset"], row["key"], row["value"]) for row in table.to_pylist()]


def _by_loop(bootstrap: str, where: TopicPartition, start: int, end: int, **options: Any) -> list[Found]:
    """Read message by message, in loops that end with a time-out, until the position is *end*."""
    found: list[Found] = []
    deadline = time.monotonic() + _PATIENCE
    with ConsumerConnector(bootstrap, consumer_timeout_ms=200, **_QUICK, **options) as connector:
        stream = connector.assign([where], start=start)
        while stream.position(where) < end:
            assert time.monotonic() < deadline, f"the position is {stream.position(where)} and not {end}"
            with suppress(ConsumerTimeout):
                found.extend(map(_found, stream))
    return found


def _by_batches(bootstrap: str, where: TopicPartition, start: int, end: int, **options: Any) -> list[Found]:
    found: list[Found] = []
    for batch in _until(bootstrap, where, start, end, lambda stream: stream.batches(timeout=0.02), **options):
        found += map(_found, batch)
    return found


def _by_arrow_batches(
    bootstrap: str, where: TopicPartition, start: int, end: int, **options: Any
) -> list[Found]:
    found: list[Found] = []
    for batch in _until(
        bootstrap, where, start, end, lambda stream: stream.arrow_batches(7, timeout=0.02), **options
    ):
        found += [Found(row["offset"], row["key"], row["value"]) for row in batch.to_pylist()]
    return found


def _until(
    bootstrap: str,
    where: TopicPartition,
    start: int,
    end: int,
    loop: Callable[[Any], Any],
    **options: Any,
) -> Iterator[Any]:
    """Yield the batches of *loop* over a stream until its position is *end*, also if no message is there."""
    deadline = time.monotonic() + _PATIENCE
    with ConsumerConnector(bootstrap, **_QUICK, **options) as connector:
        stream = connector.assign([where], start=start)
        batches = loop(stream)
        while stream.position(where) < end:
            assert time.monotonic() < deadline, f"the position is {stream.position(where)} and not {end}"
            yield next(batches)


def _by_parallel(bootstrap: str, where: TopicPartition, start: int, end: int, **options: Any) -> list[Found]:
    found: list[Found] = []
    adding = threading.Lock()

    def handle(message: Message) -> None:
        with adding:
            found.append(_found(message))

    with ConsumerConnector(bootstrap, **_QUICK, **options) as connector:
        parallel = connector.parallel(where.topic, handle, start={where: start}, workers=3)
        thread = threading.Thread(target=parallel.run)
        thread.start()
        try:
            deadline = time.monotonic() + _PATIENCE
            while not (at := connector.metrics().partitions[where].position) or at < end:
                assert time.monotonic() < deadline, f"the position is {at} and not {end}"
                time.sleep(0.01)
        finally:
            parallel.stop()
            thread.join(_PATIENCE)
    return sorted(found)


def _by_simple_consumer(
    bootstrap: str, where: TopicPartition, start: int, end: int, **options: Any
) -> list[Found]:
    found: list[Found] = []
    size = options.pop("max_partition_fetch_bytes")
    with SimpleConsumer(bootstrap) as consumer:
        while start < end:
            fetched = consumer.fetch(*where, start, size, **options)
            found += map(_found, fetched)
            assert fetched.next_offset > start
            start = fetched.next_offset
        assert not consumer.fetch(*where, start, size, **options).messages
    return found


def _found(message: Message) -> Found:
    return Found(message.offset, message.key, message.value)


FORMS: Final[dict[str, Callable[..., list[Found]]]] = {
    "read": _by_read,
    "read to Arrow": _by_arrow_read,
    "loop": _by_loop,
    "batches": _by_batches,
    "Arrow batches": _by_arrow_batches,
    "parallel": _by_parallel,
    "simple consumer": _by_simple_consumer,
}

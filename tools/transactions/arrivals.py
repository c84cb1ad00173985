"""The messages that have arrived in the last topic of a chain, as readers of committed records get them."""

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from pyklient import read

__all__ = ["arrived", "arrived_for_librdkafka", "differences"]

Values = Mapping[bytes, Sequence[bytes]]
"""The values of each key, in their order."""

_TIMEOUT: Final = 120.0
_MOST: Final = 10_000


def arrived(bootstrap: str, topic: str) -> Values:
    """Return what *topic* holds, as pyklient reads it."""
    messages = read(bootstrap, topic, isolation_level="read_committed")
    return _by_key((each.key, each.value) for each in messages)


def arrived_for_librdkafka(bootstrap: str, topic: str, partitions: int) -> Values:
    """Return what *topic* with *partitions* partitions holds, as librdkafka reads it. No transaction may be
    open."""
    return _by_key(_read_with_librdkafka(bootstrap, topic, partitions))


def _read_with_librdkafka(
    bootstrap: str, topic: str, partitions: int
) -> Iterator[tuple[bytes | None, bytes | None]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-check",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
        left, deadline = set(range(partitions)), time.monotonic() + _TIMEOUT
        while left:
            if time.monotonic() > deadline:
                raise TimeoutError(f"librdkafka has not read the partitions {left} of {topic} to their end")
            for message in consumer.consume(_MOST, timeout=1):
                if (error := message.error()) is None:
                    yield message.key(), message.value()
                elif error.code() == KafkaError._PARTITION_EOF:
                    left.discard(message.partition() or 0)
    finally:
        consumer.close()


def _by_key(messages: Iterable[tuple[bytes | None, bytes | None]]) -> Values:
    found: dict[bytes, list[bytes]] = {}
    for key, value in messages:
        found.setdefault(key or b"", []).append(value or b"")
    return found


def differences(wanted: Values, found: Values) -> list[str]:
    """Return what is wrong with the values *found* of each key, if those *wanted* were sent."""
    problems = []
    for key in sorted(wanted.keys() | found.keys()):
        expected, values = wanted.get(key, ()), found.get(key, ())
        if list(values) == list(expected):
            continue
        sent, there = set(expected), set(values)
        lost = [each for each in expected if each not in there]
        twice = [each for each, count in Counter(values).items() if count > 1]
        strange = [each for each in values if each not in sent]
        name = key.decode()
        for what, which in (
            ("are lost", lost),
            ("are there more than once", twice),
            ("were not sent", strange),
        ):
            if which:
                problems.append(f"{name}: {len(which)} messages {what}, first {which[0].decode()}")
        if not (lost or twice or strange):
            problems.append(f"{name}: the messages are out of order")
    return problems

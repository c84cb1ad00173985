"""TopicPartition, OffsetAndMetadata (a position to commit) and RecordMetadata (where a record was stored)."""

from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["OffsetAndMetadata", "RecordMetadata", "TopicPartition", "numbers_by_topic"]


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RecordMetadata(NamedTuple):
    """The partition and the offset of a record that was stored.

    ``offset`` is -1 with ``acks=0``, because the broker then sends no response. ``timestamp_ms`` is the
    record's own timestamp, or the broker's if the topic uses ``LogAppendTime``. It is in milliseconds since
    1970, and -1 if the record has no timestamp.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """A position to commit: the offset of the next record to read, and a text that is stored with it.

    ``leader_epoch`` is the leader epoch of the last record before the offset (KIP-320). It is -1 if it is not
    known.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


def numbers_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the numbers of *partitions* by topic, in the order of *partitions*."""
    found: dict[str, list[int]] = {}
    for topic, number in partitions:
        found.setdefault(topic, []).append(number)
    return found

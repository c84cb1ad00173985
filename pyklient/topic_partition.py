"""Nouns that cross layers: where a record lives, where it ended up, how far a reader has come."""

from typing import NamedTuple

__all__ = ["OffsetAndMetadata", "RecordMetadata", "TopicPartition"]


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class RecordMetadata(NamedTuple):
    """Where a record was stored.

    ``offset`` is -1 when the broker was not asked (``acks=0``). ``timestamp_ms`` is the record's own
    time, or the broker's where the topic uses ``LogAppendTime``; milliseconds since 1970, -1 for none.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


class OffsetAndMetadata(NamedTuple):
    """A committed position: the offset of the next record to read, and a note kept beside it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1

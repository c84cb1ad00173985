"""Offsets in the JSON form that Spark keeps in checkpoints: ``{"clicks": {"0": 23, "1": 17}}``."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from pyklient.topic_partition import TopicPartition

__all__ = ["EARLIEST", "LATEST", "OffsetsJson", "from_json", "to_json"]

OffsetsJson: TypeAlias = Mapping[str, Mapping[str, int]]

EARLIEST: Final = -2
"""The number that stands for the first offset of a partition, in options and in ListOffsets requests."""
LATEST: Final = -1
"""The number that stands for the end of a partition: the offset that its next record will get."""


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return *offsets* in the JSON form: sorted by topic and partition, with partition numbers as text."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(given: OffsetsJson) -> dict[TopicPartition, int]:
    """Return the offsets in *given*, which :func:`to_json` or Spark's own Kafka source has written."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in given.items()
        for partition, offset in partitions.items()
    }

"""Offsets in the JSON form in which Spark stores them in checkpoints: ``{"clicks": {"0": 23, "1": 17}}``."""

from collections.abc import Mapping
from typing import Final, TypeAlias

from pyklient.topic_partition import TopicPartition

__all__ = ["EARLIEST", "LATEST", "OffsetsJson", "from_json", "to_json"]

OffsetsJson: TypeAlias = Mapping[str, Mapping[str, int]]

EARLIEST: Final = -2
"""The number that means the first offset of a partition, in options and in ListOffsets requests."""
LATEST: Final = -1
"""The number that means the end of a partition: the offset that its next record will get."""


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Return *offsets* in the form ``{"clicks": {"0": 23}}``, sorted by topic and partition."""
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def from_json(given: OffsetsJson) -> dict[TopicPartition, int]:
    """Parse offsets in the form ``{"clicks": {"0": 23}}``, which :func:`to_json` and Spark's own Kafka source
    write."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in given.items()
        for partition, offset in partitions.items()
    }

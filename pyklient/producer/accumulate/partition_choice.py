"""Chooses the partition of a record that the kernel cannot append, and a topic's next sticky partition: the
partition of records without a key."""

import operator
from collections.abc import Mapping
from typing import Any

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.kernel import Appender, checked_partition, murmur2
from pyklient.producer.accumulate.partitioner import Partitioner, StickyPartitioner
from pyklient.producer.topic_metadata import TopicMetadata

__all__ = ["PartitionChoice"]


class PartitionChoice:
    """Chooses the partition of a record that the kernel cannot append by itself.

    The record's ``partition`` argument decides. Without it, the user's partitioner decides. Without a
    partitioner, the default rule of Java's client decides.
    """

    def __init__(
        self,
        appender: Appender,
        topics: TopicMetadata,
        partitioner: Partitioner | None,
        sticky: StickyPartitioner,
    ) -> None:
        self._appender = appender
        self._topics = topics
        self._partitioner = partitioner
        self._sticky = sticky

    def partition_count(self, topic: str, deadline: float) -> int:
        """Return the number of partitions of *topic*. If the number is not known, wait for the metadata until
        *deadline*, as ``TopicMetadata.wait`` does."""
        count = self._appender.partition_count(topic)
        if not count:
            count = self._topics.wait(argument_checks.topic_name(topic), deadline)
            self._appender.set_partitions(topic, count)
        return count

    def choose(
        self,
        topic: str,
        key: bytes | None,
        partition: Any,
        count: int,
        deadline: float,
        chosen: int | None = None,
    ) -> int | None:
        """Return the partition of a record, or None for the sticky partition of records without a key.

        *count* is the known number of partitions. If *partition* is not below *count*, the metadata is
        refreshed first. *chosen* is the partition that the partitioner has already chosen for this record, or
        None. Raises TypeError or ConfigurationError for a wrong *partition*.
        """
        if partition is None:
            if chosen is not None and chosen < count:
                return chosen
            if self._partitioner is not None:
                return checked_partition(topic, self._partitioner(topic, key, count), count)
            return None if key is None else murmur2(key) % count
        try:
            if isinstance(partition, bool):
                raise TypeError
            number = operator.index(partition)
        except TypeError:
            raise TypeError(f"partition must be a whole number, not {partition!r}") from None
        if number >= count:  # the topic may have grown
            count = self._topics.refreshed(topic, deadline)
            self._appender.set_partitions(topic, count)
        if not 0 <= number < count:
            its_partitions = (
                "its only partition has the number 0"
                if count == 1
                else f"its partitions have the numbers 0 to {count - 1}"
            )
            raise ConfigurationError(
                f"partition {number} of topic {topic!r} does not exist: {its_partitions}"
            )
        return number

    def next_sticky(self, topic: str, current: int, unfinished: Mapping[int, int]) -> int:
        """Choose a new sticky partition of *topic* in place of *current*, and return it.

        *unfinished* maps partitions to the number of their unfinished batches. The batch lock must be held.
        """
        count = self._appender.partition_count(topic)
        if count == 1:
            return current
        number = self._sticky.next(self._topics.available(topic), count, current, unfinished)
        self._appender.set_sticky_partition(topic, number)
        return self._appender.sticky_partition(topic)

"""Chooses the partition of a record that the kernel cannot append, and a topic's next sticky partition: the
partition of records without a key."""

import operator
from collections.abc import Mapping
from typing import Any, Final

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.kernel import Appender, Batch, checked_partition, murmur2
from pyklient.producer.accumulate.leader_availability import LeaderAvailability
from pyklient.producer.accumulate.limits import Limits
from pyklient.producer.accumulate.partitioner import Partitioner, StickyPartitioner
from pyklient.producer.topic_metadata import TopicMetadata

__all__ = ["PartitionChoice"]

_STICKY_SIZE: Final = 16_384
"""The bytes after which the sticky partition is replaced if its batches are sent before they are full: Java's
default of ``batch.size``. With a larger size, a producer that sends little would write to a single partition
for minutes."""


class PartitionChoice:
    """Chooses the partition of a record that the kernel cannot append by itself.

    The record's ``partition`` argument decides. Without it, the user's partitioner decides. Without a
    partitioner, the default rule of Java's client decides.

    *leaders* tells which brokers accept no requests. The sender keeps it up to date.
    """

    def __init__(
        self,
        appender: Appender,
        topics: TopicMetadata,
        partitioner: Partitioner | None,
        sticky: StickyPartitioner,
        leaders: LeaderAvailability,
        limits: Limits,
    ) -> None:
        self._appender = appender
        self._topics = topics
        self._partitioner = partitioner
        self._sticky = sticky
        self.leaders = leaders
        self._sticky_size = min(limits.batch_size, _STICKY_SIZE)

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

    def next_sticky(self, topic: str, current: int, unfinished: Mapping[int, int], full: Batch | None) -> int:
        """Return the partition of the next batch of records of *topic* without a key. Until now, such records
        have gone to the partition *current*.

        *full* is the batch of *current* into which the next record does not fit. If it is None, the last
        batch of *current* was sent before it was full. In that case, *current* is returned until it has got
        enough bytes, unless its leader is not available or slow. *unfinished* maps partitions to the number
        of their unfinished batches. The batch lock must be held.
        """
        count = self._appender.partition_count(topic)
        if count == 1:
            return current
        unavailable = self.leaders.unavailable()
        size = self._appender.sticky_bytes(topic)
        if (
            full is None
            and size < self._sticky_size
            and self._sticky.may_stay(unfinished.get(current, 0))
            and self._topics.is_available(topic, current, unavailable)
        ):
            return current
        before = -1 if size == Appender.NEVER_CHOSEN and full is None else current
        available = self._topics.available(topic, unavailable)
        number = self._sticky.next(available, count, before, unfinished)
        self._appender.set_sticky_partition(topic, number)
        return self._appender.sticky_partition(topic)

"""Sorts the messages of a batch by the leaders and the partitions to which they go."""

import random
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from pyklient.classic.broker_partition_info import NO_LEADER, BrokerPartitionInfo
from pyklient.classic.encoded_messages import EncodedMessages
from pyklient.classic.partitioners import ByteArrayPartitioner, DefaultPartitioner, Partitioner
from pyklient.error_codes import ErrorCode
from pyklient.errors import InvalidPartitionError, broker_error
from pyklient.kernel import by_partition
from pyklient.topic_partition import TopicPartition

__all__ = ["ByLeader", "Collator", "checked_partition"]

ByLeader: TypeAlias = dict[int, dict[TopicPartition, EncodedMessages]]
"""The messages by leader and then by partition. The leader is the id of a broker, or NO_LEADER."""

_HASHED: Final[dict[type, tuple[type, ...]]] = {
    DefaultPartitioner: (bytes, str),
    ByteArrayPartitioner: (bytes,),
}
"""For each class of partitioners, the classes of keys that the kernel hashes as the partitioner does."""


class Collator:
    """Chooses the partition of each message.

    The partitioner chooses the partition of messages with a key. Messages without a key go to one partition
    of their topic. This partition is chosen at random among those that have a leader, and stays the same
    until ``forget_choices`` is called.
    """

    def __init__(self, partitioner: Partitioner, info: BrokerPartitionInfo) -> None:
        self._partitioner = partitioner
        self._hashed = _HASHED.get(type(partitioner), ())
        self._info = info
        self._chosen: dict[str, int] = {}
        """The partition of messages without a key, by topic."""

    def forget_choices(self) -> None:
        """Choose a new partition for the next messages without a key."""
        self._chosen.clear()

    def collate(self, messages: Iterable[EncodedMessages]) -> ByLeader:
        """Return *messages* by leader and partition. The messages of a partition keep their order.

        Raises KafkaError if a topic is unknown, if none of its partitions has a leader, or if the partitioner
        fails or returns anything but the number of a partition.
        """
        groups: dict[TopicPartition, EncodedMessages] = {}
        for some in messages:
            for where, group in self._by_partition(some).items():
                groups[where] = EncodedMessages.joined(groups.get(where), group)
        found: ByLeader = {}
        for where, group in groups.items():
            found.setdefault(self._info.leader(where), {})[where] = group
        return found

    def _by_partition(self, messages: EncodedMessages) -> dict[TopicPartition, EncodedMessages]:
        if (only := messages.keyless_topic) is not None:
            return {TopicPartition(only, self._without_key(only)): messages}
        groups = by_partition(
            messages.given,
            messages.values,
            messages.keys,
            self._hashed,
            self._partitions,
            self._without_key,
            self._with_key,
        )
        return {
            TopicPartition(topic, partition): EncodedMessages(given, values, keys)
            for topic, partition, given, values, keys in groups
        }

    def _partitions(self, topic: str) -> list[int]:
        return [each.partition for each in self._info.partitions(topic)]

    def _without_key(self, topic: str) -> int:
        partitions = self._info.partitions(topic)
        if (chosen := self._chosen.get(topic)) is None:
            available = [each.partition for each in partitions if each.leader != NO_LEADER]
            if not available:
                raise broker_error(
                    ErrorCode.LEADER_NOT_AVAILABLE, f"no partition of {topic} can be chosen for a message"
                )
            chosen = self._chosen[topic] = random.choice(available)
        return chosen

    def _with_key(self, topic: str, key: Any) -> int:
        partitions = self._info.partitions(topic)
        return partitions[checked_partition(self._partitioner, topic, key, len(partitions))].partition


def checked_partition(partitioner: Partitioner, topic: str, key: Any, count: int) -> int:
    """Return the partition that *partitioner* chooses for *key* among *count* partitions.

    Raises InvalidPartitionError, with the name of the partitioner, if the partitioner fails or returns
    anything but a number from 0 to *count* - 1.
    """
    name = type(partitioner).__name__
    try:
        chosen: object = partitioner.partition(key, count)
    except Exception as error:
        raise InvalidPartitionError(
            f"the partitioner {name} failed for a key of topic {topic}: {type(error).__name__}: {error}"
        ) from error
    if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen < count:
        raise InvalidPartitionError(
            f"the partitioner {name} returned {chosen!r} for a key of topic {topic}, but it must return a "
            f"number from 0 to {count - 1}"
        )
    return chosen

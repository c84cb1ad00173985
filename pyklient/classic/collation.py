"""Sorts the messages of a batch by the leaders and the partitions to which they go."""

import random
from collections.abc import Iterable
from typing import Any, TypeAlias

from pyklient.classic.broker_partition_info import NO_LEADER, BrokerPartitionInfo, PartitionAndLeader
from pyklient.classic.keyed_message import KeyedMessage
from pyklient.classic.partitioners import Partitioner
from pyklient.error_codes import ErrorCode
from pyklient.errors import InvalidPartitionError, broker_error
from pyklient.topic_partition import TopicPartition

__all__ = ["ByLeader", "Collator", "checked_partition"]

ByLeader: TypeAlias = dict[int, dict[TopicPartition, list[KeyedMessage]]]
"""The messages by leader and then by partition. The leader is the id of a broker, or NO_LEADER."""


class Collator:
    """Chooses the partition of each message.

    The partitioner chooses the partition of messages with a key. All messages of a topic without a key go to
    one partition, which has a leader and is chosen at random. It stays the same until ``forget_choices`` is
    called.
    """

    def __init__(self, partitioner: Partitioner, info: BrokerPartitionInfo) -> None:
        self._partitioner = partitioner
        self._info = info
        self._chosen: dict[str, int] = {}
        """The partition of messages without a key, by topic."""

    def forget_choices(self) -> None:
        """Choose a new partition for the next messages without a key."""
        self._chosen.clear()

    def collate(self, messages: Iterable[KeyedMessage]) -> ByLeader:
        """Return *messages* by leader and partition. The messages of a partition keep their order.

        Raises KafkaError if a topic is unknown or has no leader at all, or if the partitioner fails or
        returns anything but the number of a partition.
        """
        groups: dict[TopicPartition, list[KeyedMessage]] = {}
        keyless: dict[str, list[KeyedMessage]] = {}
        for message in messages:
            topic = message.topic
            if message.key is None and message.part_key is None:
                group = keyless.get(topic)
                if group is None:
                    where = TopicPartition(topic, self._without_key(topic))
                    group = keyless[topic] = groups.setdefault(where, [])
            else:
                partition = self._with_key(topic, message.partition_key)
                group = groups.setdefault(TopicPartition(topic, partition), [])
            group.append(message)
        found: ByLeader = {}
        for where, group in groups.items():
            found.setdefault(self._leader(where), {})[where] = group
        return found

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

    def _leader(self, where: TopicPartition) -> int:
        partitions: list[PartitionAndLeader] = self._info.partitions(where.topic)
        return next((each.leader for each in partitions if each.partition == where.partition), NO_LEADER)


def checked_partition(partitioner: Partitioner, topic: str, key: Any, count: int) -> int:
    """Return what *partitioner* chooses for *key* among *count* partitions.

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

"""The interface of offset stores: databases in which a program stores positions together with its results."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple, Protocol

from pyklient.topic_partition import TopicPartition

__all__ = ["OffsetStore", "PositionChange", "StoredPosition"]


class StoredPosition(NamedTuple):
    """The position of a partition in an offset store: the offset of the next message to read, or None if no
    offset is stored."""

    offset: int | None
    epoch: int
    """A number that grows by 1 each time a member acquires the partition. Only the member that has acquired
    it last knows the newest number."""


class PositionChange(NamedTuple):
    """The change of a partition's position from *replaced* to *offset*, by a member that has acquired the
    partition with *epoch*."""

    epoch: int
    replaced: int
    offset: int


class OffsetStore(Protocol):
    """A database that keeps the positions of groups beside the results of a program.

    For each group and each partition, the database has an offset and an epoch. Several threads may call the
    methods of an OffsetStore at the same time.
    """

    def acquire(
        self, group_id: str, starts: Mapping[TopicPartition, int | None]
    ) -> Mapping[TopicPartition, StoredPosition]:
        """Add 1 to the epoch of each partition in *starts*, and return the partition's position with the new
        epoch. From then on, no change with an older epoch is accepted.

        If no offset is stored for a partition, store the one in *starts*. If the one in *starts* is None too,
        the returned offset is None. The method makes all changes in one transaction of its own, which is on
        disk when the method returns. To make the connector try again, raise an error whose attribute
        ``retriable`` is true, such as KafkaTimeoutError. Any other exception ends the connector.
        """

    def save(
        self, transaction: Any, group_id: str, changes: Mapping[TopicPartition, PositionChange]
    ) -> Collection[TopicPartition]:
        """Make *changes* in *transaction*, which the program commits later together with its results.

        Change a partition only if its stored epoch is ``epoch`` and its stored offset is ``replaced``. Check
        this even if ``offset`` is equal to ``replaced``. Return the partitions that were not changed.
        *transaction* is the object that the program has passed to ``save_offsets``, such as a connection.
        """

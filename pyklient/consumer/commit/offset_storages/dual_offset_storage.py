"""The offset storage of a group that moves its offsets between Kafka and ZooKeeper: it commits to both, and
resumes at the larger offset."""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage, Rejections, commit_here
from pyklient.consumer.owned_partitions import MemberIdentity, PartlyCommitted
from pyklient.errors import KafkaError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["DualOffsetStorage"]


class DualOffsetStorage:
    """An OffsetStorage that keeps each position both in *kafka* and in *zookeeper*.

    A group uses both storages while its members change from one storage to the other. A position counts as
    committed only when both storages have it, so members that use only one storage find the commits of this
    member there. This member resumes at the larger of the two offsets, so it finds the commits of the other
    members. It also commits the offset at which it resumes, so that both storages have the offsets of all
    partitions, even if there are no new messages.
    """

    def __init__(self, kafka: OffsetStorage, zookeeper: OffsetStorage) -> None:
        self._kafka = kafka
        self._zookeeper = zookeeper

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the larger of the two offsets of each of *partitions*, with the metadata that Kafka has.
        Return None for a partition that has no offset in either storage.

        If the two storages have different offsets of a partition, the larger one is returned as a
        PartlyCommitted, so that the member commits it to both.
        """
        deadline = time.monotonic() + timeout
        in_kafka = self._kafka.fetch(partitions, timeout)
        in_zookeeper = self._zookeeper.fetch(partitions, deadline - time.monotonic())
        return {each: _larger(in_kafka.get(each), in_zookeeper.get(each)) for each in partitions}

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Store *positions* in Kafka, and then store the accepted positions in ZooKeeper too. Return the
        positions that either storage has rejected.

        Kafka comes first, because it rejects the positions of a member that the group has removed. ZooKeeper
        does not know which member owns a partition.
        """
        deadline = time.monotonic() + timeout
        rejected = dict(self._kafka.commit(positions, identity, timeout, once=once))
        accepted = {each: position for each, position in positions.items() if each not in rejected}
        if accepted:
            rejected |= self._zookeeper.commit(accepted, identity, deadline - time.monotonic(), once=once)
        return rejected

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Store *positions* in both storages, wait for the results for at most two seconds, and return a
        future that is done. Return None if a storage cannot be reached."""
        if self.unreachable() is not None:
            return None
        return commit_here(self, positions, identity)

    def unreachable(self) -> KafkaError | None:
        """Return the reason why one of the storages cannot be reached at the moment. Return None if no reason
        is known."""
        return self._kafka.unreachable() or self._zookeeper.unreachable()

    def stop_retrying(self) -> None:
        """From now on, do not try again if a storage cannot be reached. The client calls this method when it
        closes."""
        self._kafka.stop_retrying()
        self._zookeeper.stop_retrying()


def _larger(
    in_kafka: OffsetAndMetadata | None, in_zookeeper: OffsetAndMetadata | None
) -> OffsetAndMetadata | None:
    """Return the larger of the two offsets of a partition, or None if both are None. If the two storages
    differ, the result is a PartlyCommitted: the member then commits it to both."""
    if in_zookeeper is None or in_kafka is None:
        found = in_kafka or in_zookeeper
        return None if found is None else PartlyCommitted(*found)
    if in_zookeeper.offset > in_kafka.offset:
        return PartlyCommitted(in_zookeeper.offset, in_kafka.metadata)
    return in_kafka if in_kafka.offset == in_zookeeper.offset else PartlyCommitted(*in_kafka)

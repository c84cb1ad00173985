"""The interface of offset storages, which keep the positions of a group, for example in Kafka or in
ZooKeeper."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import NamedTuple, Protocol, TypeAlias

from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import KafkaError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["AUTOMATIC_TIMEOUT", "OffsetStorage", "Rejection", "Rejections", "commit_here"]

AUTOMATIC_TIMEOUT = 2.0
"""The longest time, in seconds, for which an automatic commit may block the thread that also sends the
group's heartbeats."""


class Rejection(NamedTuple):
    """The reason why an offset storage did not store the position of a partition."""

    error: KafkaError
    outdated: bool = False
    """True if the group has begun another generation since the commit was made. The commit may succeed if it
    is made again with the member's new id and generation."""


Rejections: TypeAlias = Mapping[TopicPartition, Rejection]
"""The partitions whose positions were not stored, each with the reason. Empty if all positions were
stored."""


class OffsetStorage(Protocol):
    """A place where the positions of a group are kept. Several threads may use it at the same time."""

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the position of each of *partitions*, or None for a partition without one.

        Raise a KafkaError after *timeout* seconds at most. The error is retriable if another call may
        succeed.
        """

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Store *positions* as the member with *identity*. Return the partitions whose positions were
        rejected.

        Raise the last failure if the storage cannot be reached within *timeout* seconds. If *once* is true,
        do not try again after a failure, but raise it.
        """

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Store *positions* without waiting for the response. Return a future that gets the rejected
        positions, or None if the positions cannot be sent now."""

    def unreachable(self) -> KafkaError | None:
        """Return the reason why the storage cannot be reached at the moment. Return None if no reason is
        known."""

    def stop_retrying(self) -> None:
        """From now on, do not try again if the storage cannot be reached. The client calls this method when
        it closes.

        This also applies to calls that are running in other threads.
        """


def commit_here(
    store: OffsetStorage, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
) -> "Future[Rejections]":
    """Store *positions* in *store* as the member with *identity*, and wait for the result for at most two
    seconds. Return a future that has the result already.

    This function is for storages whose ``commit_async`` has to wait, because a later commit might otherwise
    be stored before the present commit.
    """
    done: Future[Rejections] = Future()
    try:
        done.set_result(store.commit(positions, identity, AUTOMATIC_TIMEOUT))
    except KafkaError as error:
        done.set_exception(error)
    return done

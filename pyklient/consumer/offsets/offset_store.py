"""The interface of offset stores, which keep positions: in Kafka, nowhere, or in another place."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import NamedTuple, Protocol, TypeAlias

from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import KafkaError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["OffsetStore", "Rejection", "Rejections"]


class Rejection(NamedTuple):
    """The reason why a store did not store the position of a partition."""

    error: KafkaError
    outdated: bool = False
    """True if the group has begun another generation since the commit was made: the same commit may succeed
    under the next identity."""


Rejections: TypeAlias = Mapping[TopicPartition, Rejection]
"""The partitions whose positions were not stored. Empty if all of them were."""


class OffsetStore(Protocol):
    """A place where the positions of a group are kept. Several threads call it."""

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the position of each of *partitions*, None for those without one.

        Raise a KafkaError after *timeout* seconds at most. It is retriable if another call may succeed.
        """

    def commit(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity, timeout: float
    ) -> Rejections:
        """Store *positions* as the member with *identity*. Return those that were not stored.

        Raise the last failure if the store cannot be reached within *timeout* seconds.
        """

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Store *positions* without waiting for the response. Return None if they cannot be sent now."""

    def unreachable(self) -> KafkaError | None:
        """Return the reason why the store cannot be reached at the moment; None if no reason is known."""

    def stop_retrying(self) -> None:
        """From now on, stop retrying when the store cannot be reached, also in calls that are under way,
        because the client closes."""

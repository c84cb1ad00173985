"""The port behind which positions are kept: Kafka's own store, none at all, or any other."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import NamedTuple, Protocol, TypeAlias

from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import KafkaError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["OffsetStore", "Rejection", "Rejections"]


class Rejection(NamedTuple):
    """The reason why a store did not take the position of a partition."""

    error: KafkaError
    outdated: bool = False
    """True if the group has moved on from the identity of the commit: the same commit may succeed under the
    next one."""


Rejections: TypeAlias = Mapping[TopicPartition, Rejection]
"""The partitions whose positions were not stored. Empty if all of them were."""


class OffsetStore(Protocol):
    """A place where the positions of a group are kept. Called from several threads."""

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the position of each of *partitions*, None for those without one.

        Raise a KafkaError, retriable if another call may succeed, after *timeout* seconds at most.
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
        """Store *positions* without waiting for the answer. Return None if they cannot be sent right now."""

    def unreachable(self) -> KafkaError | None:
        """Return the reason why the store cannot be reached at the moment; None while it may be."""

    def stop_retrying(self) -> None:
        """Give up from now on, in calls under way too, as soon as the store cannot be reached: the client
        closes."""

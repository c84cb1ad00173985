"""The interface of memberships. A membership decides which partitions a client owns, for example by Kafka's
classic group protocol."""

from collections.abc import Callable
from typing import Protocol

from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.owned_partitions import MemberIdentity

__all__ = ["Membership"]


class Membership(Protocol):
    """Decides which partitions a client owns, and under which identity it commits their offsets.

    A membership works in threads of its own and tells an AssignmentHandler what to read. If a membership
    revokes and assigns only some partitions, the handler continues to read the others.
    """

    @property
    def identity(self) -> MemberIdentity:
        """The identity (generation, member id and instance id) under which offsets are committed now."""

    def start(self, subscription: Subscription, handler: AssignmentHandler) -> None:
        """Subscribe, and return when the first partitions are assigned to *handler*.

        Raise an error if no partitions can be assigned.
        """

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription. This call returns at once, and the assignment changes later."""

    def runs_here(self) -> bool:
        """Return True if the calling thread belongs to this membership, as in a call of a rebalance
        listener."""

    def leave(self, timeout: float) -> None:
        """Give all partitions back, and end. Return within about *timeout* seconds."""

    def abandon(self, then: Callable[[], None]) -> bool:
        """Leave because the program no longer refers to the connector. Call *then* as the last step, on a
        thread of this membership.

        This method acquires no lock and never waits. Return False if that thread has ended already: *then*
        might never be called.
        """

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the threads of this membership to end, except for the calling
        thread."""

"""The port behind which groups are coordinated: Kafka's classic protocol, no group at all, or any other."""

from collections.abc import Callable, Set
from typing import Protocol

from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.owned_partitions import MemberIdentity

__all__ = ["Membership"]


class Membership(Protocol):
    """Decides which partitions are ours, from when on, and under which identity their offsets are committed.

    It works in threads of its own and tells an AssignmentHandler, which obeys. Partitions may be revoked and
    assigned all at once or one at a time: those that it does not name are read on undisturbed.
    """

    @property
    def identity(self) -> MemberIdentity:
        """The identity under which offsets are committed now."""

    def start(self, topics: Set[str], handler: AssignmentHandler) -> None:
        """Subscribe to *topics*, and return once the first partitions are assigned.

        Raise the error that makes that impossible.
        """

    def subscribe(self, topics: Set[str]) -> None:
        """Replace the subscription. Returns at once; partitions follow."""

    def runs_here(self) -> bool:
        """Return whether the caller is on a thread of this membership, as a rebalance listener is."""

    def leave(self, timeout: float) -> None:
        """Have all partitions revoked, and end. Returns within about *timeout* seconds."""

    def abandon(self, then: Callable[[], None]) -> bool:
        """Leave because nobody holds the connector any more, and call *then* last, on a thread of this
        membership. Takes no lock and waits for nothing.

        Return False if that thread has ended and may not call *then*.
        """

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the threads of this membership to end, except for the caller's."""

"""Makes clients unusable in a child process after a fork. The clients' sockets are closed without a message
to the brokers, and each use of such a client raises ForkError."""

import os
import weakref
from typing import Protocol

from pyklient.errors import ForkError

__all__ = ["abandon_after_fork", "belongs_to_the_parent"]


class _HasSockets(Protocol):
    def abandon(self) -> None:
        """Close the sockets in a child process after a fork. Takes no lock."""


def abandon_after_fork(client: _HasSockets) -> None:
    """Call ``client.abandon`` in each child process that is forked from now on, as long as *client*
    exists."""
    _clients.add(client)


def belongs_to_the_parent() -> ForkError:
    """Return the error for the use of a client in a child process."""
    return ForkError(
        "This client was made before a fork and belongs to the parent process; "
        "make a new client in the child process"
    )


_clients: "weakref.WeakSet[_HasSockets]" = weakref.WeakSet()


def _abandon_all() -> None:
    for client in list(_clients):
        client.abandon()


os.register_at_fork(after_in_child=_abandon_all)

"""The lease, a time limit for handing out messages, and an iterator that checks it before each message."""

import math
from collections.abc import Iterable, Iterator
from time import monotonic

from pyklient.kernel.decode.message import Message

__all__ = ["Lease", "LeasedIterator"]


class Lease:
    """The time until which a consumer may hand out messages, in seconds of ``time.monotonic``. After that,
    another member of the group may own the partitions."""

    __slots__ = ("until",)

    def __init__(self, until: float = math.inf) -> None:
        self.until = until

    def ended(self) -> bool:
        """Return True if the lease has ended, so that no message may be handed out."""
        return monotonic() >= self.until


class LeasedIterator:
    """Iterates over *messages* as long as *lease* lasts. When the lease has ended, the loop over this
    iterator ends; once the lease is extended, another loop may continue.

    A loop runs a generator, which takes less time than a method ``__next__`` in Python. The generator asks
    the clock immediately before it takes each message from *messages*. So it notices the end of the lease
    even if the process was stopped between two messages.
    """

    __slots__ = ("_lease", "_messages")

    def __init__(self, messages: Iterable[Message], lease: Lease) -> None:
        self._messages = iter(messages)
        self._lease = lease

    def __iter__(self) -> Iterator[Message]:
        lease = self._lease
        if monotonic() >= lease.until:
            return
        for message in self._messages:
            yield message
            if monotonic() >= lease.until:
                return

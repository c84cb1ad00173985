"""The lease, which says until when messages may be handed out, and the iterator that asks it before each
message."""

import math
from collections.abc import Iterable
from time import monotonic
from typing import Self

from pyklient.kernel.decode.message import Message

__all__ = ["Lease", "LeasedIterator"]


class Lease:
    """The time until which messages may be handed out, in seconds of ``time.monotonic``."""

    __slots__ = ("until",)

    def __init__(self, until: float = math.inf) -> None:
        self.until = until

    def ended(self) -> bool:
        """Return True if no message may be handed out now."""
        return monotonic() >= self.until


class LeasedIterator:
    """An iterator over *messages* that stops while *lease* has ended, and may then be continued."""

    __slots__ = ("_lease", "_messages")

    def __init__(self, messages: Iterable[Message], lease: Lease) -> None:
        self._messages = iter(messages)
        self._lease = lease

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Message:
        if monotonic() >= self._lease.until:
            raise StopIteration
        return next(self._messages)

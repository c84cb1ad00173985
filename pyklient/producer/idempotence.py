"""How the broker tells a record sent again from a new one: producer id, epoch, sequence (KIP-98).

Every partition counts for itself here: a gap in its sequence is closed by going on with the next epoch
from 0 (KIP-360), which the broker checks per partition too, so that the others need not stop for it.
"""

from typing import Final, NamedTuple

__all__ = ["Sequences", "BatchIdentity", "NO_IDENTITY"]

_LAST_EPOCH: Final = 0x7FFF
_SEQUENCE_MODULUS: Final = 1 << 31


class BatchIdentity(NamedTuple):
    """What goes into the header of a batch. It stays the same however often the batch is sent, unless the
    broker has certainly not stored it."""

    producer_id: int
    epoch: int
    sequence: int


NO_IDENTITY: Final = BatchIdentity(-1, -1, -1)
"""Of a producer that is not idempotent."""


class Sequences:
    """The identities of the batches of one partition, in order."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.used_up = -1
        """The id whose epochs have all been used here."""
        self._epoch = 0
        self._next = 0

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Begin with an id that the broker gave."""
        self.producer_id, self._epoch, self._next = producer_id, epoch, 0

    def identify(self, count: int) -> BatchIdentity:
        """Of the batch with the next *count* records."""
        identity = BatchIdentity(self.producer_id, self._epoch, self._next)
        self._next = (self._next + count) % _SEQUENCE_MODULUS
        return identity

    def restart(self) -> None:
        """Go on from 0 in the next epoch; after the last one, without an id until another is adopted."""
        self._next = 0
        if self._epoch < _LAST_EPOCH:
            self._epoch += 1
        else:
            self.used_up, self.producer_id = self.producer_id, -1

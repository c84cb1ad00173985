"""Sequence numbers, which tell the broker if a batch is new or sent again (KIP-98).

Each partition has its own sequence. After a gap, the partition continues with number 0 in the next epoch
(KIP-360). The broker checks epochs per partition too, so all other partitions may stay in their epochs.
"""

from typing import Final, NamedTuple

__all__ = ["LAST_EPOCH", "NO_IDENTITY", "BatchIdentity", "Sequences"]

LAST_EPOCH: Final = 0x7FFF
_SEQUENCE_MODULUS: Final = 1 << 31


class BatchIdentity(NamedTuple):
    """Producer id, epoch and first sequence number, as in the header of a batch.

    A batch that is sent again keeps them, unless the earlier attempt has certainly not stored the batch.
    """

    producer_id: int
    epoch: int
    sequence: int


NO_IDENTITY: Final = BatchIdentity(-1, -1, -1)
"""The identity of the batches of a producer without idempotence."""


class Sequences:
    """Gives the batches of one partition their producer id, epoch and sequence numbers, in order."""

    def __init__(self) -> None:
        self.producer_id = -1
        self.used_up = -1
        """The producer id whose epochs this partition has used up. -1 if there is none."""
        self._epoch = 0
        self._next = 0

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Begin with a producer id and an epoch that ProducerIdentity has got from a broker."""
        self.producer_id, self._epoch, self._next = producer_id, epoch, 0

    def identify(self, count: int) -> BatchIdentity:
        """Return the identity of the next batch, which has *count* records."""
        identity = BatchIdentity(self.producer_id, self._epoch, self._next)
        self._next = (self._next + count) % _SEQUENCE_MODULUS
        return identity

    @property
    def next_epoch(self) -> int:
        """The epoch with which the producer id continues after the current epoch. Greater than LAST_EPOCH if
        the producer id has no further epoch."""
        return self._epoch + 1

    def restart(self) -> None:
        """Continue with sequence number 0 in the next epoch. After the last epoch, drop the producer id."""
        self._next = 0
        if self._epoch < LAST_EPOCH:
            self._epoch += 1
        else:
            self.used_up, self.producer_id = self.producer_id, -1

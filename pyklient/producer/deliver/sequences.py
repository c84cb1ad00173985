"""Sequence numbers, which tell the broker if a batch is new or sent again (KIP-98).

Each partition has its own sequence. After a gap, the partition continues with number 0 in the next epoch
(KIP-360). The broker checks epochs per partition too, so all other partitions may stay in their epochs.
"""

from typing import Final, NamedTuple

__all__ = ["LAST_EPOCH", "NO_IDENTITY", "BatchIdentity", "Sequences"]

LAST_EPOCH: Final = 0x7FFF
_SEQUENCE_MODULUS: Final = 1 << 31

_tuple_new = tuple.__new__


class BatchIdentity(NamedTuple):
    """Producer id, epoch and first sequence number, as in the header of a batch.

    A batch that is sent again keeps its identity, unless the broker has certainly not stored the batch.
    """

    producer_id: int
    epoch: int
    sequence: int


NO_IDENTITY: Final = BatchIdentity(-1, -1, -1)
"""The identity of the batches of a producer without idempotence."""


class Sequences:
    """Gives the batches of one partition their producer id, epoch and sequence numbers, in order.

    A *transactional* producer has one epoch for all partitions, which only the transaction coordinator
    raises. After a gap, it sends nothing until ``end_of_transaction``.
    """

    def __init__(self, *, transactional: bool = False) -> None:
        self.transactional = transactional
        self.producer_id = -1
        self.used_up = -1
        """The producer id whose epochs this partition has used up. -1 if there is none."""
        self.known = False
        """True if the broker has stored a batch with the current producer id and epoch."""
        self.broken = False
        """True if a batch of the open transaction has failed, so that the partition sends no more batches of
        this transaction."""
        self._epoch = 0
        self._next = 0
        self._stored = 0
        """The sequence number that follows the last stored batch, if the producer is transactional."""

    def adopt(self, producer_id: int, epoch: int) -> None:
        """Begin with a producer id and an epoch that ProducerIdentity has got from a broker."""
        self.producer_id, self._epoch, self._next = producer_id, epoch, 0
        self._stored = 0
        self.known = self.broken = False

    def is_of(self, producer_id: int, epoch: int) -> bool:
        """Return True if the next batch gets this producer id and epoch."""
        return self.producer_id == producer_id and self._epoch == epoch

    def identify(self, count: int) -> BatchIdentity:
        """Return the identity of the next batch, which has *count* records."""
        # Calling the class would run a Python function, for each batch.
        identity = _tuple_new(BatchIdentity, (self.producer_id, self._epoch, self._next))
        self._next = (self._next + count) % _SEQUENCE_MODULUS
        return identity

    def stored(self, batch: BatchIdentity, count: int) -> None:
        """Remember that the broker has stored *batch*, which has *count* records."""
        self.known = True
        if self.transactional:
            self._stored = (batch.sequence + count) % _SEQUENCE_MODULUS

    @property
    def next_epoch(self) -> int:
        """The epoch with which the producer id continues after the current epoch. Greater than LAST_EPOCH if
        the producer id has no further epoch."""
        return self._epoch + 1

    def restart(self) -> None:
        """Continue with sequence number 0 in the next epoch. After the last epoch, drop the producer id."""
        self._next = 0
        self.known = False
        if self._epoch < LAST_EPOCH:
            self._epoch += 1
        else:
            self.used_up, self.producer_id = self.producer_id, -1

    def end_of_transaction(self) -> None:
        """Prepare for the next transaction after an abort: if batches have failed, the next batch gets the
        sequence number that follows the last stored batch.

        If the leader may have stored a failed batch after all, the transaction coordinator has given the
        producer a new epoch. The caller then calls ``adopt`` with this epoch.
        """
        if self.broken:
            self._next = self._stored
            self.broken = False

"""The state of a producer's transactions that the sender shares with the threads of the program."""

from pyklient.errors import KafkaError, TransactionAbortedError
from pyklient.net.produce_versions import MAX_PRODUCE_VERSION
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.transactions.failure_kinds import abortable

__all__ = ["Transaction"]

_LAST_OF_VERSION_1 = 11
"""The last version of Produce that does not add partitions to the transaction (KIP-890)."""


class Transaction:
    """The current transaction of a producer with the id *transactional_id*, and the version of its protocol.

    In version 1 of the protocol (KIP-98), a separate request adds partitions to the transaction. In version 2
    (KIP-890), Produce requests add them, and the end of each transaction brings a new epoch.

    While all batches are finished, a thread of the program may call ``begin``. After that, only the sender
    changes the attributes, and it holds the sender lock, until all batches are finished again.
    """

    def __init__(self, transactional_id: str, accumulator: RecordAccumulator) -> None:
        self.transactional_id = transactional_id
        self.version = 1
        self.serial = 0
        """The number of transactions that were begun."""
        self.attempted = False
        """True once a request may have added a partition or a group to the transaction at the
        coordinator."""
        self.confirmed = False
        """True once the coordinator has confirmed a request that adds a partition or a group."""
        self.end_requests = 0
        """The number of requests to commit or abort the transaction."""
        self.failure: KafkaError | None = None
        """The first failure because of which the transaction cannot be committed."""
        self.sequences_lost = False
        """True if a batch failed and may have been stored, so that the next transaction needs a new epoch."""
        self.dropping: TransactionAbortedError | None = None
        """The error for batches that have not been sent. None until the transaction has failed or is
        aborted."""
        self._accumulator = accumulator

    @property
    def max_produce_version(self) -> int:
        """The newest version of Produce that the transaction's version of the protocol allows."""
        return MAX_PRODUCE_VERSION if self.version > 1 else _LAST_OF_VERSION_1

    def begin(self) -> None:
        """Begin another transaction."""
        self.serial += 1
        self.attempted = self.confirmed = self.sequences_lost = False
        self.end_requests = 0
        self.failure = self.dropping = None

    def fail(self, error: KafkaError) -> None:
        """Remember that the transaction cannot be committed because of *error*, unless it has failed before.

        Batches that have not been sent fail too, and each further ``send`` raises an error.
        """
        if self.failure is None:
            self.failure = error
            self._accumulator.hold(abortable(self.transactional_id, error))
            self.drop(f"another record or request of the transaction has failed: {error}", error)

    def drop(self, reason: str, cause: KafkaError | None = None) -> None:
        """Let all batches that have not been sent fail. *reason* says why."""
        if self.dropping is None:
            error = TransactionAbortedError(f"this record was not sent, because {reason}")
            error.__cause__ = cause
            self.dropping = error

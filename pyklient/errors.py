"""The errors that pyklient raises. The error codes of the protocol are in ``error_codes``.

To decide about a retry, look at ``error.retriable`` instead of the class. ConfigurationError is a mistake of
the caller. ProtocolError means that the peer sent bytes that break the protocol. BrokerError means that a
broker answered with an error code.
"""

from collections.abc import Sequence
from copy import copy
from typing import Any, TypeVar

from pyklient.error_codes import ErrorFacts, error_facts

__all__ = [
    "KafkaError",
    "ConfigurationError",
    "ProtocolError",
    "CorruptRecordError",
    "UnsupportedVersionError",
    "UnsupportedCodecError",
    "BrokerConnectionError",
    "UnreachableError",
    "AuthenticationError",
    "KafkaTimeoutError",
    "BufferFullError",
    "MessageTooLargeError",
    "ClosedError",
    "ForkError",
    "DeliveryError",
    "CommitError",
    "ConsumerTimeout",
    "StreamInUseError",
    "MessageStreamsExistError",
    "PartitionNotAssignedError",
    "RebalanceFailedError",
    "OffsetOutOfRangeError",
    "OffsetStoreFencedError",
    "TransactionError",
    "AbortableTransactionError",
    "CommitOutcomeUnknownError",
    "ProducerFencedError",
    "FatalTransactionError",
    "TransactionAbortedError",
    "TransactionStateError",
    "DataLossError",
    "LoadConflictError",
    "QueueFullError",
    "QueueClosedError",
    "ProducerClosedError",
    "FailedToSendMessageError",
    "InvalidPartitionError",
    "NoBrokersForPartitionError",
    "WorkerProcessError",
    "RegistryError",
    "RegistryConnectionError",
    "SessionExpiredError",
    "NoNodeError",
    "NodeExistsError",
    "NodeVersionError",
    "NodeContentError",
    "BrokerError",
    "ErrorFacts",
    "broker_error",
    "error_facts",
    "for_another",
]


_E = TypeVar("_E", bound=Exception)


class KafkaError(Exception):
    """The base of all errors of this package. If ``retriable`` is true, the same call may succeed later."""

    retriable: bool = False


class ConfigurationError(KafkaError, ValueError):
    """An option is unknown, out of range, or contradicts another; or an argument is out of range."""


class ProtocolError(KafkaError):
    """The peer sent bytes that do not follow Kafka's protocol: truncated, too large, or of another
    protocol."""


class CorruptRecordError(ProtocolError):
    """The bytes of records have a wrong checksum or cannot be parsed."""


class UnsupportedVersionError(KafkaError):
    """The broker supports no version of a request that can do what the caller asked for."""


class UnsupportedCodecError(KafkaError):
    """A compression codec is unknown, or not allowed with this record format."""


class BrokerConnectionError(KafkaError, OSError):
    """A broker could not be reached, or the connection failed."""

    retriable = True


class UnreachableError(BrokerConnectionError):
    """No connection could be made to one address, or to any of several addresses.

    ``cause`` describes the failure in a few words. ``nobody_there`` is true if waiting will hardly help:
    every address refused the connection, or belongs to a host name that does not exist.
    """

    def __init__(self, message: str, cause: str = "", *, nobody_there: bool = False) -> None:
        super().__init__(message)
        self.cause = cause or message
        self.nobody_there = nobody_there

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.cause), {"nobody_there": self.nobody_there}


class AuthenticationError(KafkaError):
    """The login failed, or the certificate of the broker or of the client was not accepted."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """A call did not finish within its time-out."""

    retriable = True


class BufferFullError(KafkaTimeoutError):
    """The producer's buffer (``buffer_memory``) stayed full for ``max_block_ms``, so that a record was not
    accepted."""


class MessageTooLargeError(KafkaError, ValueError):
    """A record is larger than the producer, the broker or the consumer accepts."""


class ClosedError(KafkaError):
    """A client, broker or connection was used after it was closed, or was closed before a call ended."""


class ForkError(KafkaError):
    """A client that was made before a fork was used in the child process."""


class DeliveryError(KafkaError):
    """Records were not delivered, and the program has not seen their failures yet.

    A program sees the failure of a record in its callback, or in ``result`` or ``exception`` of its delivery.
    ``count`` is the number of records whose failure was not seen. ``errors`` maps each topic to its first
    error. The first error of all topics is the ``__cause__``.
    """

    def __init__(self, message: str, count: int = 0, errors: dict[str, KafkaError] | None = None) -> None:
        super().__init__(message)
        self.count = count
        self.errors = errors or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.count, self.errors)


class CommitError(KafkaError):
    """Some offsets were not committed. ``partitions`` maps the TopicPartition of each of these offsets to its
    error."""

    def __init__(self, message: str, partitions: dict[Any, KafkaError] | None = None) -> None:
        super().__init__(message)
        self.partitions = partitions or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.partitions)


class ConsumerTimeout(KafkaError):
    """No message arrived within ``consumer_timeout_ms``. The program may begin another loop over the
    stream."""


class StreamInUseError(KafkaError):
    """Two threads read one stream at the same time. Each thread needs a stream of its own."""


class MessageStreamsExistError(KafkaError):
    """The message streams of a connector exist already. A connector makes its streams only once."""


class PartitionNotAssignedError(KafkaError):
    """A stream was asked about a partition that it does not read now. Another member of the group, or another
    stream of the connector, may read the partition."""


class RebalanceFailedError(KafkaError):
    """A member of a ZooKeeper group could not own its partitions, even after ``rebalance_max_retries``
    attempts. In most cases, another member has not given the partitions back."""

    retriable = True


class OffsetOutOfRangeError(KafkaError):
    """The next offset to read is not in the log (deleted, or not written yet), and ``auto_offset_reset`` is
    ``none``."""


class OffsetStoreFencedError(KafkaError):
    """The positions of messages were not saved in the offset store, because another member has acquired the
    partitions, or because the messages do not begin at the stored position.

    The results of the messages must not be stored: let the error roll the transaction back. Then call
    ``KafkaStream.rewind``, or :func:`pyklient.read` again, and go on reading.
    """


class TransactionError(KafkaError):
    """The base of the errors of a producer's transactions. Each of the four subclasses stands for one way to
    go on."""


class AbortableTransactionError(TransactionError):
    """The transaction cannot be committed any more. Call ``abort_transaction``, and begin another transaction
    with the same producer. The error that made the transaction fail is the ``__cause__``."""


class CommitOutcomeUnknownError(TransactionError):
    """The transaction coordinator has not confirmed a commit in time, so the transaction may be committed or
    not. Call ``commit_transaction`` again, which repeats this commit, until it succeeds or raises another
    error."""

    retriable = True


class ProducerFencedError(TransactionError):
    """Another producer with the same ``transactional_id`` has taken over, so this producer can send no more
    records. Its open transaction was aborted. Close it."""


class FatalTransactionError(TransactionError):
    """The producer can send no more records, because of an error from which it cannot recover. Close it,
    correct the cause that the message names, and make a new producer."""


class TransactionAbortedError(KafkaError):
    """A record was not sent, because its transaction is aborted. ``result`` of the record's delivery raises
    this error."""


class TransactionStateError(KafkaError):
    """A method of a producer was called at the wrong time, such as ``commit_transaction`` outside a
    transaction, or ``send`` before ``begin_transaction``. The call has changed nothing."""


class DataLossError(KafkaError):
    """Records were deleted before a Spark query had read them, and the query's option ``failOnDataLoss`` is
    true."""


class LoadConflictError(KafkaError):
    """Two runs of ``pyklient.spark.load`` into one data set took place at the same time. The other run made
    its records visible first, so readers do not see the records of this run."""

    retriable = True


class QueueFullError(KafkaError):
    """The queue of an asynchronous classic producer stayed full for the time that ``send`` waits, so that a
    message was not accepted."""

    retriable = True


class QueueClosedError(ClosedError):
    """An asynchronous classic producer with the options and rules of Kafka 0.7 was used after it was
    closed."""


class ProducerClosedError(ClosedError):
    """A classic producer was used after it was closed."""


class FailedToSendMessageError(KafkaError):
    """A classic producer could not send some messages, even with all its retries. ``unsent`` has these
    messages."""

    retriable = True

    def __init__(self, message: str, unsent: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.unsent = unsent

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.unsent)


class InvalidPartitionError(KafkaError):
    """The partitioner of a classic producer returned something that is not a partition of the topic."""


class NoBrokersForPartitionError(KafkaError):
    """A classic producer with the options and rules of Kafka 0.7 found no broker for a message."""

    retriable = True


class WorkerProcessError(KafkaError):
    """A worker process of ``ConsumerConnector.parallel`` died while it handled a message, or its handler
    raised an exception that cannot be pickled."""


class RegistryError(KafkaError):
    """ZooKeeper could not carry out a request."""


class RegistryConnectionError(RegistryError, OSError):
    """ZooKeeper could not be reached, or the connection failed before ZooKeeper answered."""

    retriable = True


class SessionExpiredError(RegistryError):
    """ZooKeeper has ended the session, and deleted the ephemeral nodes that the session had created."""

    retriable = True


class NoNodeError(RegistryError):
    """ZooKeeper has no node with this path."""


class NodeExistsError(RegistryError):
    """ZooKeeper has a node with this path already."""


class NodeVersionError(RegistryError):
    """Another client has changed a node of ZooKeeper, so the node does not have the expected version."""

    retriable = True


class NodeContentError(RegistryError):
    """The content of a ZooKeeper node cannot be understood: no version of Kafka writes such content."""


class BrokerError(KafkaError):
    """A broker answered with an error code. ``code``, ``name``, ``facts`` and ``retriable`` describe the
    code."""

    def __init__(self, facts: ErrorFacts, context: str = "") -> None:
        super().__init__(
            f"{context}: {facts.sentence} ({facts.name}, {facts.code})"
            if context
            else f"{facts.sentence} ({facts.name}, {facts.code})"
        )
        self.facts = facts
        self.context = context
        self.code = facts.code
        self.name = facts.name
        self.retriable = facts.retriable
        self.refresh_metadata = facts.refresh_metadata

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.facts, self.context)


def broker_error(code: int, context: str = "") -> BrokerError:
    """Return the BrokerError for *code*. *context* says what failed and where, such as ``cannot produce to
    clicks-3``."""
    return BrokerError(error_facts(code), context)


def for_another(error: _E) -> _E:
    """Return a copy of *error* for another thread, because one exception object would mix the tracebacks of
    all threads."""
    mine = copy(error)
    mine.__cause__ = error.__cause__
    return mine

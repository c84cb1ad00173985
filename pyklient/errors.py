"""Every error pyklient raises, in one tree. What the codes of brokers mean is in ``error_codes``.

Callers ask ``error.retriable`` instead of keeping lists of classes. Errors of ours and of theirs are
told apart: ConfigurationError is the caller's, ProtocolError is the peer's bytes, BrokerError is a code
that a broker sent on purpose.
"""

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
    "OffsetOutOfRangeError",
    "DataLossError",
    "LoadConflictError",
    "BrokerError",
    "ErrorFacts",
    "broker_error",
    "error_facts",
    "for_another",
]


_E = TypeVar("_E", bound=Exception)


class KafkaError(Exception):
    """Root of all errors of this package. ``retriable``: the same call may succeed later."""

    retriable: bool = False


class ConfigurationError(KafkaError, ValueError):
    """An option is unknown, out of range, or contradicts another; or an argument is out of range."""


class ProtocolError(KafkaError):
    """Bytes from the peer break the protocol: truncated, oversized, or not Kafka at all."""


class CorruptRecordError(ProtocolError):
    """Record bytes fail their checksum or do not parse."""


class UnsupportedVersionError(KafkaError):
    """The broker has no version of a request that can carry what was asked."""


class UnsupportedCodecError(KafkaError):
    """A compression codec is unknown, or not allowed with this record format."""


class BrokerConnectionError(KafkaError, OSError):
    """A broker could not be reached, or the connection broke."""

    retriable = True


class AuthenticationError(KafkaError):
    """The broker refused who we are, or we refused who it is (TLS)."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """Nothing failed, but the time allowed ran out."""

    retriable = True


class BufferFullError(KafkaTimeoutError):
    """``buffer_memory`` stayed full for ``max_block_ms``."""


class MessageTooLargeError(KafkaError, ValueError):
    """A record is larger than the producer or the broker takes, or than the reader allows."""


class ClosedError(KafkaError):
    """The client has been closed."""


class ForkError(KafkaError):
    """A client made before a fork was used in the child process."""


class DeliveryError(KafkaError):
    """Records were not delivered, and no callback, ``result`` or ``exception`` had seen it.

    ``count`` says how many, ``errors`` maps each topic concerned to the first error there. The first of
    these is the ``__cause__``.
    """

    def __init__(self, message: str, count: int = 0, errors: dict[str, KafkaError] | None = None) -> None:
        super().__init__(message)
        self.count = count
        self.errors = errors or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.count, self.errors)


class CommitError(KafkaError):
    """Some offsets were not committed; ``partitions`` maps each such TopicPartition to its error."""

    def __init__(self, message: str, partitions: dict[Any, KafkaError] | None = None) -> None:
        super().__init__(message)
        self.partitions = partitions or {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.args[0], self.partitions)


class ConsumerTimeout(KafkaError):
    """No message within ``consumer_timeout_ms``; a new ``iter()`` of the stream resumes."""


class StreamInUseError(KafkaError):
    """Two threads read one stream; each needs a stream of its own."""


class MessageStreamsExistError(KafkaError):
    """A connector creates its message streams once."""


class OffsetOutOfRangeError(KafkaError):
    """The position is not in the log any more (or not yet), and ``auto_offset_reset`` is ``none``."""


class DataLossError(KafkaError):
    """Records were gone before a Spark query had read them, and its option ``failOnDataLoss`` is true."""


class LoadConflictError(KafkaError):
    """Two loads into one data set ran at the same time, and the other was published first."""

    retriable = True


class BrokerError(KafkaError):
    """A broker answered with an error code. The facts of the code are attributes."""

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
    """The error for *code*; *context* says what failed and where, e.g. ``produce to clicks-3``."""
    return BrokerError(error_facts(code), context)


def for_another(error: _E) -> _E:
    """*error* for one more thread: an exception raised in several would mix their tracebacks."""
    mine = copy(error)
    mine.__cause__ = error.__cause__
    return mine

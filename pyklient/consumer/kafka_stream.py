"""KafkaStream, the object over which the user iterates to get messages.

Threads refer to its StreamCore, and never to the KafkaStream or the connector. So the KafkaStream and the
connector are garbage-collected when the user does not refer to them or to a loop any more. In this way
pyklient notices that a connector was dropped without being closed.
"""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, NoReturn, TypeVar

from pyklient.consumer.stream.active_loop import Loop
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import ClosedError
from pyklient.kernel import Message

if TYPE_CHECKING:
    from pyarrow import RecordBatch

__all__ = ["KafkaStream"]

_T = TypeVar("_T")


class KafkaStream:
    """An endless iterable of the messages of some topics' partitions. A ConsumerConnector makes it.

    ``for``, :meth:`batches` and :meth:`arrow_batches` share one position. A new ``iter()`` begins after the
    message in hand, or with that message after :meth:`redeliver`. Iteration ends when the connector is
    closed. Iteration raises

    - StreamInUseError while a loop in another thread reads the stream: one thread at a time can read it;
    - ClosedError if a loop begins after the connector was closed; a loop that has begun just ends;
    - ConsumerTimeout after ``consumer_timeout_ms`` without a message; a new ``iter()`` resumes;
    - CorruptRecordError if the bytes of records are damaged; a new ``iter()`` fetches them again;
    - the exception of a decoder, with topic, partition and offset in a note; a new ``iter()`` begins after
      the message that could not be decoded;
    - OffsetOutOfRangeError if there is no position to read from and ``auto_offset_reset`` is ``none``;
    - the error that ended the connector's membership of its group.
    """

    def __init__(self, core: StreamCore, commit: Callable[[StreamCore, float | None], None]) -> None:
        self._core = core
        self._commit = commit  # the connector's own, which keeps that open as long as this is there

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics of the stream. For a topic filter, the topics of which this connector owns partitions
        now."""
        return self._core.topics

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a KafkaStream cannot be pickled; create a ConsumerConnector where the stream is used"
        )

    def __iter__(self) -> Iterator[Message]:
        chunks = self._begin(self._core.chunks())
        return chain.from_iterable(chunks)

    def batches(self, max_records: int = 10_000, timeout: float | None = 1.0) -> Loop[list[Message]]:
        """Return an iterator of lists of up to *max_records* messages. It waits only for the first message of
        a list.

        After *timeout* seconds without a message the list is empty. If *timeout* is None, the iterator waits
        like a ``for`` loop, which may raise ConsumerTimeout. A whole list is in hand until the loop asks for
        the next list. Any thread may ask for the next list, as long as no two threads do so at the same time.
        """
        return self._begin(self._core.batches(max_records, timeout))

    def arrow_batches(
        self, max_records: int = 100_000, timeout: float | None = 1.0, headers: bool = False
    ) -> "Loop[RecordBatch]":
        """Return an iterator of ``pyarrow.RecordBatch`` objects, each of up to *max_records* records of one
        partition.

        The columns are key, value, topic, partition, offset, timestamp (microseconds, UTC), timestampType,
        and headers, a list of key and value, if *headers* is true. Bytes are copied once, and no object is
        made per record.

        The iterator waits only for the first record of a batch. After *timeout* seconds without a record the
        batch has no records. If *timeout* is None, the iterator waits like a ``for`` loop, which may raise
        ConsumerTimeout. A whole batch is in hand until the loop asks for the next batch.

        Raises ImportError if pyarrow is not installed, and ConfigurationError if keys or values have
        decoders, because these batches hold bytes.
        """
        return self._begin(self._core.arrow_batches(max_records, timeout, headers))

    def redeliver(self) -> None:
        """Go back to the message or batch in hand, which a loop has got last. The next loop begins with it,
        and so does the present loop if it continues.

        Call this method where a handler has failed, before a new loop marks the message as done. No commit
        includes the message until it is handed out again. If a commit has included it already, the next
        commit stores the earlier offset. After an error of a decoder, the message that could not be decoded
        comes again.

        Without a message in hand, this method does nothing: before the first message, and after
        ConsumerTimeout, because the loop had asked for the next message. If a rebalance has revoked the
        partition meanwhile, the message comes again from the committed offset, to the member that reads the
        partition now.

        Raises StreamInUseError while a loop in another thread reads the stream.
        """
        self._core.check_not_forked()
        self._core.redeliver()

    def commit_offsets(self, timeout: float | None = None) -> None:
        """Commit the position of this stream, including the message that the loop is handling.

        Raises CommitError if this member does not own some of the partitions any more; all others are
        committed. Raises KafkaTimeoutError with the last failure after *timeout* seconds (None:
        ``default_api_timeout_ms``).
        """
        self._core.check_not_forked()
        self._commit(self._core, timeout)

    def _begin(self, loop: Loop[_T]) -> Loop[_T]:
        """Return *loop*, which keeps this stream alive from now on. Raise ClosedError if the stream has
        ended."""
        if self._core.queue.ended and not self._core.forked:
            raise ClosedError(
                f"the stream of {self._core.name} has ended: its ConsumerConnector has been closed"
            )
        loop.keeps = self
        return loop

"""KafkaStream: the object that the user iterates over.

Threads refer to the StreamCore behind it, and never to the KafkaStream or the connector. So both are
collected when the user holds neither of them nor a loop any more. That is how a connector that nobody
closed is noticed.
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
    """An endless iterable of Messages from some partitions of some topics. Made by a ConsumerConnector.

    ``for``, :meth:`batches` and :meth:`arrow_batches` share one position. A new ``iter()`` goes on after the
    message in hand, or with it after :meth:`redeliver`. Iteration ends when the connector is closed, and
    raises

    - StreamInUseError while a loop in another thread reads it: one thread at a time can read a stream;
    - ClosedError if a loop begins after that; a loop that has begun just ends;
    - ConsumerTimeout after ``consumer_timeout_ms`` without a message; a new ``iter()`` resumes;
    - CorruptRecordError where record bytes are damaged; a new ``iter()`` fetches them again;
    - what a decoder raises, with topic, partition and offset in a note; a new ``iter()`` goes on behind it;
    - OffsetOutOfRangeError where there is no position to read from and ``auto_offset_reset`` is ``none``;
    - the error that ended the connector's membership of its group.
    """

    def __init__(self, core: StreamCore, commit: Callable[[StreamCore, float | None], None]) -> None:
        self.topics = core.topics
        self._core = core
        self._commit = commit  # the connector's own, which keeps that open as long as this is there

    def __repr__(self) -> str:
        return repr(self._core)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a KafkaStream cannot be pickled; make a ConsumerConnector where it is used")

    def __iter__(self) -> Iterator[Message]:
        chunks = self._begin(self._core.chunks())
        return chain.from_iterable(chunks)

    def batches(self, max_records: int = 10_000, timeout: float | None = 1.0) -> Loop[list[Message]]:
        """Return lists of up to *max_records* messages. Waits for the first one only.

        After *timeout* seconds without a message the list is empty; without a *timeout* it is as in a ``for``
        loop, which may raise ConsumerTimeout. A whole list is in hand until the next one is asked for, which
        any thread may do that has this iterator to itself.
        """
        return self._begin(self._core.batches(max_records, timeout))

    def arrow_batches(
        self, max_records: int = 100_000, timeout: float | None = 1.0, headers: bool = False
    ) -> "Loop[RecordBatch]":
        """Return ``pyarrow.RecordBatch`` objects, each of up to *max_records* records of one partition.
        Waits for the first record only.

        Columns: key, value, topic, partition, offset, timestamp (microseconds, UTC), timestampType, and
        headers, a list of key and value, if asked for. Bytes are copied once, and no object is made per
        record.

        After *timeout* seconds without a record the batch has none; without a *timeout* it is as in a ``for``
        loop, which may raise ConsumerTimeout. A whole batch is in hand until the next one is asked for.

        Raises ImportError where pyarrow is not installed, and ConfigurationError where keys or values have
        decoders, which these batches do not pass through.
        """
        return self._begin(self._core.arrow_batches(max_records, timeout, headers))

    def redeliver(self) -> None:
        """Go back to the message in hand, or the batch: the next loop begins with it, and so does the loop
        under way if it goes on.

        Call it where a handler has failed, before a new loop says that the message is done. No commit covers
        the message until it is handed out again; one that has covered it already is taken back by the next
        commit. After an error of a decoder it is the message that could not be decoded that comes again.

        Does nothing if no message is in hand: before the first one, and after ConsumerTimeout, since the loop
        had asked for the next. If a rebalance has taken the partition meanwhile, the message is not
        put in front: it comes again from the committed offset, to the member that reads the partition now.

        Raises StreamInUseError while a loop of another thread is under way.
        """
        self._core.refuse_fork()
        self._core.redeliver()

    def commit_offsets(self, timeout: float | None = None) -> None:
        """Commit what this stream has handed out, the message in hand included.

        Raise CommitError naming the partitions that are not ours any more, after committing the rest; and
        KafkaTimeoutError, naming the last failure, after *timeout* seconds (None:
        ``default_api_timeout_ms``).
        """
        self._core.refuse_fork()
        self._commit(self._core, timeout)

    def _begin(self, loop: Loop[_T]) -> Loop[_T]:
        """Return *loop*, which keeps this stream alive. Raise ClosedError if the stream has ended."""
        if self._core.queue.ended and not self._core.forked:
            topics = ", ".join(self.topics)
            raise ClosedError(f"the stream of {topics} has ended: its ConsumerConnector has been closed")
        loop.keeps = self
        return loop

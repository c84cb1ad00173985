"""KafkaStream, the object over which the user iterates to get messages.

Threads refer to its StreamCore, and never to the KafkaStream or the connector. So the KafkaStream and the
connector are garbage-collected when the user does not refer to them or to a loop any more. In this way
pyklient notices that the program no longer refers to a connector that was not closed.
"""

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from pyklient.consumer.start_points import StartPoint
from pyklient.consumer.stream.active_loop import Loop
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.consumer.stream_control import BatchOffsets, StreamControl
from pyklient.errors import ClosedError
from pyklient.kernel import Message
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

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
    - CorruptRecordError if the bytes of records are damaged, unless the option ``on_corrupt`` says to skip
      them; a new ``iter()`` fetches them again;
    - the exception of a decoder, with topic, partition and offset in a note; a new ``iter()`` begins after
      the message that could not be decoded;
    - OffsetOutOfRangeError if there is no position to read from and ``auto_offset_reset`` is ``none``;
    - the error that ended the connector's membership of its group.
    """

    def __init__(self, core: StreamCore, control: StreamControl) -> None:
        self._core = core
        self._control = control  # which keeps the connector open as long as this is there

    def __repr__(self) -> str:
        return repr(self._core)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that the stream reads. If the stream has a topic filter, only topics of which this
        connector owns partitions now."""
        return self._core.topics

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a KafkaStream cannot be pickled; create a ConsumerConnector where the stream is used"
        )

    def __iter__(self) -> Iterator[Message]:
        return self._core.messages(self._begin(self._core.chunks()))

    def batches(self, max_records: int = 10_000, timeout: float | None = 1.0) -> Loop[list[Message]]:
        """Return an iterator of lists of up to *max_records* messages. The iterator waits only for the first
        message of a list.

        After *timeout* seconds without a message the list is empty. If *timeout* is None, the iterator waits
        like a ``for`` loop, which may raise ConsumerTimeout. A whole list is in hand until the loop asks for
        the next list. Any thread may ask for the next list, as long as no two threads do so at the same time.
        """
        return self._begin(self._core.batches(max_records, timeout))

    def arrow_batches(
        self,
        max_records: int = 100_000,
        timeout: float | None = 1.0,
        headers: bool = False,
        columns: Iterable[str] | None = None,
    ) -> "Loop[RecordBatch]":
        """Return an iterator of ``pyarrow.RecordBatch`` objects, each of up to *max_records* records of one
        partition.

        The columns are key, value, topic, partition, offset, timestamp (microseconds, UTC), timestampType. If
        *headers* is true, there is also the column headers: a list of (key, value) for each record. Bytes are
        copied once, and no object is made per record.

        *columns* names the columns to return, in their order, such as ``["value", "timestamp"]``. Other
        columns are not made, which saves time and memory. To get the headers too, name ``"headers"`` there.

        The iterator waits only for the first record of a batch. If no record arrives within *timeout*
        seconds, the next batch is empty. If *timeout* is None, the iterator waits like a ``for`` loop, which
        may raise ConsumerTimeout. A whole batch is in hand until the loop asks for the next batch.

        Raises ImportError if pyarrow is not installed. Raises ConfigurationError if keys or values have
        decoders, because these batches hold bytes, and if *columns* is empty or has a name that is unknown or
        repeated.
        """
        return self._begin(self._core.arrow_batches(max_records, timeout, headers, columns))

    def redeliver(self) -> None:
        """Go back to the message or batch in hand, so that it is handed out again. The next loop begins with
        this message, and so does the present loop if it continues.

        Call this method when the handling of a message has failed, and before a new loop begins: a new loop
        would mark the message as done. No commit includes the message until it is handed out again. If a
        commit has included it already, the next commit stores the earlier offset. After an error of a
        decoder, the message that could not be decoded is handed out again.

        If there is no message in hand, this method does nothing. No message is in hand before the loop has
        got the first message, or after ConsumerTimeout, because the loop has asked for the next message. If a
        rebalance has revoked the partition meanwhile, the member that owns the partition now gets the message
        again, because it begins at the committed offset.

        Raises StreamInUseError while a loop in another thread reads the stream.
        """
        self._control.redeliver(self._core)

    def seek(self, partition: TopicPartition, to: StartPoint, timeout: float | None = None) -> None:
        """Continue *partition* at *to*: an offset, ``"beginning"``, ``"end"`` or a datetime with a time zone.

        A datetime means the first message at or after it, or the end of the log if there is no such
        message.

        ``"beginning"``, ``"end"`` and a datetime are looked up before this method returns. After that, no
        message that was fetched earlier is handed out, not even by a loop that is running. The offset becomes
        the position of the partition, and the next commit stores it. If a message of the partition is in
        hand, :meth:`redeliver` does not hand it out again.

        If the log does not have the offset, a warning is logged and reading continues where
        ``auto_offset_reset`` says. If ``auto_offset_reset`` is ``none``, the loop raises
        OffsetOutOfRangeError instead. With an ``offset_store``, do not seek back: :meth:`save_offsets` then
        raises OffsetStoreFencedError.

        Any thread may seek while a loop reads. Raises PartitionNotAssignedError if this stream does not read
        *partition* now, and KafkaTimeoutError if the offset is not found in *timeout* seconds (by default
        ``default_api_timeout_ms``).
        """
        self._control.seek(self._core, partition, to, timeout)

    def position(self, partition: TopicPartition, timeout: float | None = None) -> int:
        """Return the offset of the next message of *partition* that a loop gets.

        If the offset at which reading begins is not known yet, wait for it. Raises PartitionNotAssignedError
        if this stream does not read *partition* now, KafkaTimeoutError after *timeout* seconds (by default
        ``default_api_timeout_ms``), and OffsetOutOfRangeError if there is no position and
        ``auto_offset_reset`` is ``none``.
        """
        return self._control.position(self._core, partition, timeout)

    def committed(self, partition: TopicPartition, timeout: float | None = None) -> OffsetAndMetadata | None:
        """Ask the group coordinator for the committed offset of *partition*. Return None if there is none.

        Raises ConfigurationError without a group, PartitionNotAssignedError if this stream does not read
        *partition* now, and KafkaTimeoutError after *timeout* seconds (by default
        ``default_api_timeout_ms``).
        """
        return self._control.committed(self._core, partition, timeout)

    def pause(self, *partitions: TopicPartition) -> None:
        """Hand out no more messages of *partitions*, and fetch no more of them, until :meth:`resume`.

        Messages that were fetched already stay in memory. A message in hand stays in hand. A loop that has
        only paused partitions waits, and ``max_poll_interval_ms`` does not limit this wait. A partition stays
        paused after a rebalance if it stays with this member; for another member it is not paused. Any thread
        may pause while a loop reads.

        If this stream does not read all of *partitions* now, pauses none of them and raises
        PartitionNotAssignedError.
        """
        self._control.pause(self._core, partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Continue *partitions* where they were paused. A partition that is not paused is left as it is.

        If this stream does not read all of *partitions* now, resumes none of them and raises
        PartitionNotAssignedError.
        """
        self._control.resume(self._core, partitions)

    def paused(self) -> list[TopicPartition]:
        """Return the partitions of this stream that are paused."""
        return self._control.paused(self._core)

    def lag(self, timeout: float | None = None) -> dict[TopicPartition, int]:
        """Return how many offsets each partition of this stream is behind the end of its log.

        This method asks the brokers for the ends of the logs: the high watermarks, or the last stable offsets
        under ``read_committed``. Offsets without a message, such as those of compacted messages, count too.
        Raises KafkaTimeoutError after *timeout* seconds (by default ``default_api_timeout_ms``).
        """
        return self._control.lag(self._core, timeout)

    def commit_offsets(self, timeout: float | None = None) -> None:
        """Commit the position of this stream, including the message that the loop is handling.

        Raises CommitError if this member no longer owns some of the partitions. The positions of the other
        partitions are committed. Raises KafkaTimeoutError with the last failure after *timeout* seconds (by
        default ``default_api_timeout_ms``).
        """
        self._core.check_not_forked()
        self._control.commit([self._core], timeout)

    def batch_offsets(self, batch: Collection[Message]) -> BatchOffsets:
        """Return the offsets after *batch* and the metadata of this member, as the arguments of
        ``Producer.send_offsets_to_transaction``.

        *batch* is the list that a loop over :meth:`batches` has got last. Call this method before the loop
        asks for the next list. Raises CommitError if this member has lost a partition of *batch* meanwhile.
        In that case, abort the transaction: the messages are handed out again, here or to another member.
        Raises ConfigurationError if the connector commits automatically, or does not commit to Kafka.
        """
        return self._control.batch_offsets(self._core, batch)

    def save_offsets(self, transaction: Any) -> None:
        """Save the positions of this stream in the connector's offset store, in *transaction*, such as a
        connection to the database. The positions include the message or batch that the loop is handling.

        Call this method once in each transaction, in the thread that reads the stream. The transaction must
        contain the results of all messages that the stream has handed out since the last save, and of no
        others. The transaction may be repeated as a whole if it was rolled back.

        Raises OffsetStoreFencedError if these results must not be stored, for instance because another member
        has acquired the partitions: let the error roll the transaction back, then call :meth:`rewind`. Raises
        ConfigurationError if the connector has no ``offset_store``, and in a rebalance listener. Raises
        StreamInUseError while a loop in another thread reads the stream.
        """
        self._control.save_offsets(self._core, transaction)

    def rewind(self) -> None:
        """Continue the partitions of this stream at their positions in the connector's offset store.

        Call this method after a failed transaction was rolled back, if the transaction is not repeated. Call
        it in the thread that reads the stream. Discard the results that are not stored: their messages are
        handed out again, unless another member owns their partitions now. Raises ConfigurationError if the
        connector has no ``offset_store``, and in a rebalance listener. Raises StreamInUseError while a loop
        in another thread reads the stream.
        """
        self._control.rewind(self._core)

    def _begin(self, loop: Loop[_T]) -> Loop[_T]:
        """Return *loop*, after making it refer to this stream, so that the stream is not collected while the
        loop exists. Raise ClosedError if the stream has ended."""
        if self._core.queue.ended and not self._core.forked:
            raise ClosedError(
                f"the stream of {self._core.name} has ended: its ConsumerConnector has been closed"
            )
        loop.keeps = self
        return loop

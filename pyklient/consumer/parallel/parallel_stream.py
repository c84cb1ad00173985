"""ParallelStream, a stream whose messages several workers handle at the same time."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.parallel.key_queues import KeyQueues, Order
from pyklient.consumer.parallel.partition_progress import PartitionProgress
from pyklient.consumer.stream.active_loop import Loop
from pyklient.consumer.stream.chunk_reader import Restart
from pyklient.consumer.stream.messages_or_columns import Decoding
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.consumer.topic_filters.topic_filter import TopicFilter
from pyklient.errors import ConsumerTimeout
from pyklient.kernel import Lease
from pyklient.topic_partition import TopicPartition

__all__ = ["ParallelStream"]

_TICK = 0.2


class ParallelStream(StreamCore):
    """A stream that puts its messages into queues, one for each key. Workers get the messages from there.

    Commits and the assignment handler use it like any other stream. The position of a partition is the offset
    of its first message that is not completed. A revoked partition is given back when no worker handles one
    of its messages any more. The stream's lock guards the queues of keys and the progress of partitions too.
    """

    def __init__(
        self,
        topics: Sequence[str] | TopicFilter,
        decoding: Decoding,
        restart: Restart,
        lease: Lease,
        order: Order,
        max_in_hand: int,
        max_bytes: int,
    ) -> None:
        super().__init__(topics, decoding, None, restart, lease)
        self.queues = KeyQueues(self._lock, self.queue.asked, lease, order, max_in_hand, max_bytes)
        self._progress: dict[TopicPartition, PartitionProgress] = {}

    def read_some(self) -> bool:
        """Wait for capacity and for messages, and queue some messages for the workers.

        Return False when no more messages will be queued.
        """
        capacity = self.queues.wait_for_capacity()
        if not capacity:
            return False
        # The loop ends at once, so that nobody waits for the thread of this loop to ask again.
        loop = Loop(self._active_loop, partial(self._queue_chunk, capacity))
        try:
            return next(loop, False)
        finally:
            loop.close()

    def _queue_chunk(self, capacity: int) -> bool | None:
        try:
            chunk = self._reader.next(_TICK, self._decoding)
        except ConsumerTimeout:
            return True
        if chunk is None:
            return None
        with self._lock:  # one step: a commit in between would count these messages as completed
            source = self.queue.source
            if source is not None and chunk.remaining:
                self.queues.add(self._progress_of(source.cursor), chunk.hand_out(capacity))
        return True

    def _progress_of(self, cursor: Cursor) -> PartitionProgress:
        progress = self._progress.get(cursor.partition)
        if progress is None or progress.owned is not cursor.owned:
            progress = self._progress[cursor.partition] = PartitionProgress(cursor.owned, progress)
        return progress

    def revoke(self) -> None:
        """Stop handing out messages of partitions that the client does not own any more, to loops and to
        workers."""
        with self._lock:
            super().revoke()
            for progress in self._progress.values():
                if not progress.owned.active:
                    self.queues.drop_held(progress)

    def end(self) -> None:
        """End the stream for good. Workers may still finish the messages that they handle. If a handler calls
        this method, no thread waits for the message of this handler."""
        with self._lock:
            super().end()
            self.queues.do_not_wait_for_me()
            self.queues.stop()

    def wait_until_asked(self, left: Callable[[], float]) -> bool:
        """Wait until no worker handles a message of a revoked partition.

        *left* returns how many seconds remain. Return True if the workers have finished in time.
        """
        if not super().wait_until_asked(left):
            return False
        with self._lock:
            while self.queues.handles_revoked():
                if (seconds := left()) <= 0:
                    return False
                self.queue.asked.wait(min(seconds, 1.0))
        return True

    def handed(self, *, in_hand: bool) -> dict[TopicPartition, Position]:
        """Return the position of each partition: the offset of its first message that is not completed.
        *in_hand* has no effect, because a message that a worker handles is not completed."""
        with self._lock:
            found = super().handed(in_hand=True)
            for partition, read in found.items():
                progress = self._progress.get(partition)
                if progress is not None and progress.owned.generation == read.generation:
                    position = progress.position(read)
                    epoch = self.queue.positions.leader_epochs.before(partition, position.offset)
                    found[partition] = position._replace(leader_epoch=epoch)
        return found

    def forget(self, partitions: Mapping[TopicPartition, int]) -> None:
        """Forget positions, so that they are never committed.

        *partitions* maps each partition to a generation. A position is forgotten if it was reached in this
        generation or an earlier one.
        """
        with self._lock:
            super().forget(partitions)
            for partition, generation in partitions.items():
                progress = self._progress.get(partition)
                if progress is not None and progress.owned.generation <= generation:
                    del self._progress[partition]

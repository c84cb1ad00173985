"""A ParallelStream without brokers and without threads: a test decides when each step happens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.consumer.parallel.key_queues import Order, Task
from pyklient.consumer.parallel.parallel_stream import ParallelStream
from pyklient.consumer.stream.messages_or_columns import Decoding
from pyklient.kernel import Lease, encode_batch
from pyklient.protocol.records import NewRecord
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["Bench", "Record"]


class Record(NamedTuple):
    """A record of a log."""

    offset: int
    key: bytes | None = None


class Bench:
    """A stream that owns ``t-0`` from *committed* on, and whose log contains *records*."""

    def __init__(
        self,
        records: Sequence[Record],
        committed: OffsetAndMetadata | None = None,
        *,
        order: Order = "key",
        max_in_hand: int = 1000,
        max_bytes: int = 1 << 30,
    ) -> None:
        self.partition = TopicPartition("t", 0)
        self._records = records
        self.lease = Lease()
        self.stream = ParallelStream(
            ["t"], Decoding(), lambda *_: None, self.lease, order, max_in_hand, max_bytes
        )
        self._generation = 0
        self.assign(committed)

    def assign(self, committed: OffsetAndMetadata | None = None, reached: int | None = None) -> None:
        """Assign the partition from *committed* on, or from *reached* on if this client has owned it just
        before. Queue the records from there on."""
        self._generation += 1
        self.owned = OwnedPartition(
            self.partition, generation=self._generation, committed=committed, reached=reached
        )
        start = self.owned.start or 0
        cursor = Cursor(self.owned, position=start, reset="earliest")
        found = [record for record in self._records if record.offset >= start]
        if found:
            batches = [
                encode_batch([NewRecord(0, each.key, b"%d" % each.offset, ())], base_offset=each.offset)
                for each in found
            ]
            fetched = FetchedBatches(cursor, memoryview(b"".join(batches)), start, found[-1].offset + 1)
            self.stream.queue.put([fetched])

    def revoke(self) -> None:
        """Revoke the partition."""
        self.owned.active = False
        self.stream.revoke()

    def read_all(self) -> None:
        """Read until there is nothing left to read, or no room."""
        queues = self.stream.queues
        while self._waits() and queues._in_hand < queues._max_in_hand and queues._bytes < queues._max_bytes:
            self.stream.read_some()

    def _waits(self) -> bool:
        queue, chunk = self.stream.queue, self.stream._reader.chunk
        if chunk is not None and chunk.remaining:
            return True
        return bool(queue.items) or (queue.source is not None and queue.source.size > 0)

    def take(self) -> Task | None:
        """Return the next message for a worker, or None if no message may be handled now."""
        ready = self.stream.queues._ready
        ready.put(None)  # so that next() does not wait
        task = self.stream.queues.next()
        for queue in [ready.get() for _ in range(ready.qsize())]:
            if queue is not None:
                ready.put(queue)
        return task

    def finish(self, task: Task, *, completed: bool = True) -> None:
        """Record the end of a handler."""
        self.stream.queues.finish(task, completed=completed)

    def to_commit(self) -> OffsetAndMetadata | None:
        """Return what an automatic commit would store now."""
        handed: Any = self.stream.handed(in_hand=False).get(self.partition)
        return None if handed is None else OffsetAndMetadata(handed.offset, handed.metadata)

    def handle_all(self) -> list[int]:
        """Read and handle everything. Return the offsets in the order in which they were handled."""
        handled: list[int] = []
        self.read_all()
        while (task := self.take()) is not None:
            handled.append(task.message.offset)
            self.finish(task)
            self.read_all()
        return handled

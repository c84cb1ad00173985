"""Streams without brokers: tests put into the queue what a fetcher would put there."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches
from pyklient.consumer.fetch.fetch_queue import FetchQueue
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.consumer.owned_partitions import Assignment, MemberIdentity, OwnedPartition
from pyklient.consumer.stream.messages_or_columns import Decoding
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import ConsumerTimeout
from pyklient.kernel import Lease, Message, encode_batch
from pyklient.protocol.records import AbortedTransactions, NewRecord
from pyklient.topic_partition import TopicPartition

__all__ = ["Bench", "batch", "marker", "until_quiet", "until_raised", "values"]


def batch(*texts: str, base: int = 0, **facts: Any) -> bytes:
    """Return one batch of format 2 with these values."""
    return encode_batch([NewRecord(0, None, text.encode(), ()) for text in texts], base_offset=base, **facts)


def marker(base: int, kind: int, producer_id: int = 5) -> bytes:
    """Return the control batch that ends a transaction: *kind* 0 aborts, 1 commits."""
    key = bytes(3) + bytes([kind])
    return encode_batch(
        [NewRecord(0, key, bytes(6), ())],
        base_offset=base,
        control=True,
        transactional=True,
        producer_id=producer_id,
        producer_epoch=0,
    )


def until_raised(loop: Iterable[Any], error: type[Exception] = ConsumerTimeout) -> list[Any]:
    """Return the messages that *loop* hands out until it raises *error*."""
    seen: list[Any] = []

    def run() -> None:
        seen.extend(message for message in loop)

    with pytest.raises(error):
        run()
    return seen


def until_quiet(stream: KafkaStream, least: int) -> list[Message]:
    """Return the messages that *stream* hands out until none comes for a while. Wait for longer for the first
    *least* messages."""
    deadline = time.monotonic() + 30
    seen: list[Message] = []
    batches = stream.batches(timeout=0.3)
    for some in batches:
        seen += some
        if not some and (len(seen) >= least or time.monotonic() > deadline):
            break
    batches.close()
    return seen


def values(messages: Sequence[Any]) -> list[Any]:
    """Return the values of *messages*, as text if they are bytes."""
    return [each.value.decode() if isinstance(each.value, bytes) else each.value for each in messages]


class Bench:
    """One stream with an assignment of ``t-0`` and ``t-1``, and a record of what the stream requests."""

    def __init__(self, *, timeout: float | None = 0.2, **decoding: Any) -> None:
        self.lease = Lease()
        self.restarted: list[tuple[TopicPartition, int | None]] = []
        self.stream = StreamCore(
            ["t"],
            Decoding(**decoding),
            timeout,
            self._restart,
            self.lease,
        )
        self.reads_again = False
        """True if the batches of a partition that is restarted are queued again."""
        self.logs: dict[int, list[tuple[memoryview, int, int]]] = {}
        """The batches of each partition that are queued then, each with its first and its next offset."""
        self.assignment = self.assign(generation=1)

    def assign(self, *, generation: int) -> Assignment:
        """Make a new assignment, with a cursor for each partition."""
        partitions = [TopicPartition("t", 0), TopicPartition("t", 1)]
        owned = {each: OwnedPartition(each, generation=generation) for each in partitions}
        self.assignment = Assignment(MemberIdentity(generation, "m"), owned)
        self.cursors = [Cursor(each, position=0, reset="earliest") for each in owned.values()]
        for cursor in self.cursors:
            self.stream.queue.begin(cursor)
        return self.assignment

    def deactivate(self) -> None:
        """Revoke both partitions without telling the stream."""
        for owned in self.assignment.partitions.values():
            owned.active = False

    def put(
        self, *batches: bytes, partition: int = 0, start: int = 0, then: int, aborted: Any = None
    ) -> FetchedBatches:
        """Queue *batches* as one response. *then* is the offset after them."""
        transactions = None if aborted is None else AbortedTransactions(aborted)
        records = memoryview(b"".join(batches))
        fetched = FetchedBatches(self.cursors[partition], records, start, then, transactions)
        self.logs.setdefault(partition, []).append((fetched.buffer, start, then))
        self.stream.queue.put([fetched])
        return fetched

    def _restart(self, queue: FetchQueue, cursor: Cursor, at: int | None) -> None:
        self.restarted.append((cursor.partition, at))
        successor = queue.replace(cursor, at)
        if self.reads_again and at is not None and successor is not None:
            self.cursors[cursor.partition.partition] = successor
            queue.put(
                [
                    FetchedBatches(successor, buffer, max(at, start), then)
                    for buffer, start, then in self.logs[cursor.partition.partition]
                    if then > at
                ]
            )

    def committable(self, *, in_hand: bool) -> dict[int, int]:
        """Return the offsets to commit, by partition."""
        return {each.partition: at.offset for each, at in self.stream.handed(in_hand=in_hand).items()}

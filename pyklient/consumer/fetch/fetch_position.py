"""The cursor, which owns the fetch position of a partition, and the batches that were fetched for it."""

import math
from collections.abc import Callable
from typing import TypeAlias

from pyklient.consumer.owned_partitions import LookedUp, OwnedPartition
from pyklient.consumer.start_points import StartPoint
from pyklient.errors import KafkaError
from pyklient.metrics.consumer_counts import PartitionCounts
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.protocol.records.aborted_transactions import AbortedTransactions
from pyklient.topic_partition import TopicPartition

__all__ = ["Cursor", "FetchFailure", "Item", "Pace", "FetchedBatches"]

_PERIOD = 1.0


class Pace:
    """The speed at which a loop reads bytes, over about one second. Only the fetcher's thread uses it."""

    __slots__ = ("_since", "_taken", "per_second")

    def __init__(self) -> None:
        self.per_second = math.inf
        """The speed in bytes per second. It is infinite until a loop has been observed for a second, so that
        the first fetches are not limited."""
        self._since: float | None = None
        self._taken = 0

    def note(self, taken: int, now: float) -> None:
        """Remember that the loop has read *taken* bytes in total at the time *now*, in seconds."""
        if self._since is None:
            self._since, self._taken = now, taken
        elif (elapsed := now - self._since) >= _PERIOD:
            self.per_second = (taken - self._taken) / elapsed
            self._since, self._taken = now, taken


class Cursor:
    """One partition that is being fetched, with the position of the next fetch.

    A cursor belongs to one thread at a time: the fetcher of its leader, or the leader lookup. Only that
    thread changes ``position`` and ``fetched``, and ``taken`` changes only while the stream's lock is held.
    So each of these numbers has one writer at a time, and their difference needs no lock.
    """

    __slots__ = (
        "counts", "cut_batch", "dropped", "end", "fetch_bytes", "fetched", "leader_epoch", "on_decoded",
        "owned", "pace", "partition", "position", "reset", "start_point", "taken", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        owned: OwnedPartition,
        *,
        position: int | None,
        reset: str,
        end: int | None = None,
    ) -> None:
        self.partition: TopicPartition = owned.partition
        self.owned = owned
        self.position = position
        """The fetch position, which is the offset to fetch next. None until it is looked up."""
        self.reset = reset
        """The value of ``auto_offset_reset`` for this partition. It says where to begin if the log does not
        have the position; ``none`` means an error."""
        self.start_point: StartPoint | None = None
        """The start point that the program has named, until its offset is looked up. If it is None, ``reset``
        determines the offset to begin at."""
        self.end = end
        """The offset at which reading of the partition ends. None if reading does not end."""
        self.leader_epoch = -1
        self.topic_id = ZERO_UUID
        """The id of the topic, or zeros if the cluster has no topic ids. The last leader lookup has set it,
        and ``leader_epoch`` too."""
        self.fetch_bytes: int | None = None
        """The number of bytes to request in the next fetch, if the last response had only a part of its first
        message. Otherwise None, and the next fetch requests as many bytes as the budget allows."""
        self.cut_batch = 0
        """The size of the batch that was cut off at the end of the last response, if it is large and known.
        Otherwise 0."""
        self.fetched = 0
        """The number of bytes that have been queued for the stream so far."""
        self.taken = 0
        """The number of bytes in ``fetched`` that a loop has decoded so far."""
        self.pace = Pace()
        self.counts = PartitionCounts()
        """The counts of the records that were read from the partition, including those of earlier cursors."""
        self.on_decoded: Callable[[], None] | None = None
        """A function that is called when the loop has decoded more fetched batches. A fetcher sets it while
        it waits until the fetch budget allows another fetch."""
        self.dropped = False

    def __repr__(self) -> str:
        return f"<Cursor {self.partition} at {self.position}{'' if self.active else ', inactive'}>"

    @property
    def active(self) -> bool:
        """True while fetched messages may be handed out: the client owns the partition, and no other cursor
        has replaced this one."""
        return self.owned.active and not self.dropped

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes that are queued and not yet decoded."""
        return self.fetched - self.taken

    @property
    def finished(self) -> bool:
        """True if everything up to ``end`` has been fetched. False if there is no ``end``."""
        return self.end is not None and self.position is not None and self.position >= self.end

    def note_decoded(self, size: int) -> None:
        """Remember that the loop has decoded *size* bytes."""
        self.taken += size
        self.wake_fetcher()

    def wake_fetcher(self) -> None:
        """Wake the fetcher if it waits because the fetch budget is used up. The fetcher then checks if it may
        fetch this partition."""
        if (on_decoded := self.on_decoded) is not None:
            self.on_decoded = None
            on_decoded()

    def begin(self, offset: int) -> None:
        """Begin at *offset*, which was looked up. After this call, the caller must call ``begin_at`` of the
        stream's queue."""
        self.position, self.start_point = offset, None
        self.owned.looked_up = LookedUp(offset, self.topic_id)

    def successor(self, position: int | None) -> "Cursor":
        """Return a new cursor that reads the same partition from *position* on, or from an offset that is
        still to be looked up if that is None. The caller then marks this cursor as dropped."""
        cursor = Cursor(self.owned, position=position, reset=self.reset, end=self.end)
        cursor.topic_id, cursor.counts = self.topic_id, self.counts
        cursor.start_point = self.start_point if position is None else None
        return cursor


class FetchedBatches:
    """The undecoded batches of one partition from one fetch response.

    ``at`` is the position in ``buffer`` of the next byte to decode, and ``start`` is the offset at which
    decoding continues. The thread that reads the stream advances both. ``next_offset`` is the offset after
    the last of these batches. All of them have the same ``leader_epoch``, which is -1 if the record format
    has none.
    """

    __slots__ = ("aborted", "at", "buffer", "cursor", "leader_epoch", "next_offset", "start")

    def __init__(
        self,
        cursor: Cursor,
        buffer: memoryview,
        start: int,
        next_offset: int,
        aborted: AbortedTransactions | None = None,
        leader_epoch: int = -1,
    ) -> None:
        self.cursor = cursor
        self.buffer = buffer
        self.at = 0
        self.start = start
        self.next_offset = next_offset
        self.aborted = aborted
        self.leader_epoch = leader_epoch

    def copy(self) -> "FetchedBatches":
        """Return a copy that can be decoded again from the same position. The copy shares the bytes."""
        copy = FetchedBatches(
            self.cursor, self.buffer, self.start, self.next_offset, self.aborted, self.leader_epoch
        )
        copy.at = self.at
        return copy

    @property
    def size(self) -> int:
        """The number of bytes that are still to be decoded."""
        return max(0, len(self.buffer) - self.at)


class FetchFailure:
    """An error that prevents fetching of a cursor from ``position`` on.

    A loop raises the error when it reaches that position. ``position`` is None if the offset to begin at is
    not known yet.
    """

    __slots__ = ("cursor", "error", "position", "size")

    def __init__(self, cursor: Cursor, error: KafkaError, position: int | None) -> None:
        self.cursor = cursor
        self.error = error
        self.position = position
        self.size = 0


Item: TypeAlias = FetchedBatches | FetchFailure
"""An entry of a stream's queue: fetched batches, or a failure to fetch."""

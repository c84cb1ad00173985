"""One partition being read, and the stretches of its bytes on their way to a stream."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from pyklient.consumer.group.membership import Assignment
from pyklient.errors import KafkaError
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.protocol.records.aborted import AbortedTransactions
from pyklient.topic_partition import TopicPartition

__all__ = ["Cursor", "FetchFailure", "Item", "Pace", "FetchedBatches", "Sink"]

_PERIOD = 1.0


class Sink(Protocol):
    """Where what is fetched goes to: a stream."""

    def put(self, items: "Sequence[Item]") -> None:
        """Queue *items*, which belong to one cursor. Never waits."""

    def begin_at(self, cursor: "Cursor", offset: int) -> None:
        """Note that *cursor* goes on at *offset*, which was looked up: the position once what is queued of it
        has been handed out."""

    def drop(self, cursor: "Cursor") -> None:
        """Forget what is queued of *cursor*."""

    def fail(self, error: Exception) -> None:
        """Reading cannot go on: every loop raises *error*."""


class Pace:
    """How fast a reader takes bytes, over the last second or so. Belongs to the fetcher's thread."""

    __slots__ = ("_since", "_taken", "per_second")

    def __init__(self) -> None:
        self.per_second = math.inf
        """Any speed may be expected of a reader that has not been watched for a second."""
        self._since: float | None = None
        self._taken = 0

    def note(self, taken: int, now: float) -> None:
        """The reader has taken *taken* bytes in all at the time *now*, in seconds."""
        if self._since is None:
            self._since, self._taken = now, taken
        elif (elapsed := now - self._since) >= _PERIOD:
            self.per_second = (taken - self._taken) / elapsed
            self._since, self._taken = now, taken


class Cursor:
    """One partition of an Assignment: who reads it, and how far it has been fetched.

    It belongs to one thread at a time, the fetcher of its leader or the finder of leaders, which alone
    changes ``position`` and ``fetched``. The thread that reads the stream alone changes ``taken``. So each
    number has one writer, and their difference needs no lock.
    """

    __slots__ = (
        "assignment", "dropped", "end", "failures", "fetched", "leader_epoch", "on_room", "pace",
        "partition", "position", "reset", "retry_at", "stream", "taken", "topic_id",
    )  # fmt: skip

    def __init__(
        self,
        partition: TopicPartition,
        assignment: Assignment,
        stream: Sink,
        *,
        position: int | None,
        reset: str,
        end: int | None = None,
    ) -> None:
        self.partition = partition
        self.assignment = assignment
        self.stream = stream
        self.position = position
        """Offset to fetch next; None until looked up."""
        self.reset = reset
        """Where to go from a position that is not in the log: earliest, latest, or none (an error)."""
        self.end = end
        """Offset at which reading ends; None for never."""
        self.leader_epoch = -1
        self.topic_id = ZERO_UUID
        """The topic's id, zeros where the cluster has none. Like the epoch, as its leader was found."""
        self.failures = 0
        """Fetches that have failed in a row."""
        self.retry_at = 0.0
        """Not to be fetched again before that time."""
        self.fetched = 0
        """Bytes given to the stream so far."""
        self.taken = 0
        """Bytes of those that the stream has decoded."""
        self.pace = Pace()
        self.on_room: Callable[[], None] | None = None
        """Set by a fetcher that waits for this partition's bytes to be taken."""
        self.dropped = False

    def __repr__(self) -> str:
        return f"<Cursor {self.partition} at {self.position}{'' if self.active else ', inactive'}>"

    @property
    def active(self) -> bool:
        """Whether what is fetched for it may still be handed out."""
        return self.assignment.active and not self.dropped

    @property
    def waiting_bytes(self) -> int:
        """Bytes fetched and not yet taken."""
        return self.fetched - self.taken

    @property
    def finished(self) -> bool:
        """Whether everything up to its end has been fetched."""
        return self.end is not None and self.position is not None and self.position >= self.end

    def take(self, size: int) -> None:
        """The reading thread has decoded *size* bytes."""
        self.taken += size
        if (on_room := self.on_room) is not None:
            self.on_room = None
            on_room()

    def successor(self, position: int | None) -> "Cursor":
        """The same partition read from *position* on, in place of this one, which is dropped."""
        self.dropped = True
        cursor = Cursor(
            self.partition, self.assignment, self.stream, position=position, reset=self.reset, end=self.end
        )
        cursor.topic_id = self.topic_id
        return cursor


class FetchedBatches:
    """Whole batches of one cursor, undecoded, as one response brought them.

    ``at`` is the byte and ``start`` the offset from which it is still to be decoded; the reading thread moves
    both. ``next_offset`` follows the last batch.
    """

    __slots__ = ("aborted", "at", "buffer", "cursor", "next_offset", "start")

    def __init__(
        self,
        cursor: Cursor,
        buffer: memoryview,
        start: int,
        next_offset: int,
        aborted: AbortedTransactions | None = None,
    ) -> None:
        self.cursor = cursor
        self.buffer = buffer
        self.at = 0
        self.start = start
        self.next_offset = next_offset
        self.aborted = aborted

    def copy(self) -> "FetchedBatches":
        """The same stretch of the same bytes, to be decoded from where this one stands."""
        copy = FetchedBatches(self.cursor, self.buffer, self.start, self.next_offset, self.aborted)
        copy.at = self.at
        return copy

    @property
    def size(self) -> int:
        """Bytes still to be decoded."""
        return max(0, len(self.buffer) - self.at)


class FetchFailure:
    """Why a cursor cannot be read from ``position`` on (None: from where it would begin).

    The stream raises the error when it gets there.
    """

    __slots__ = ("cursor", "error", "position", "size")

    def __init__(self, cursor: Cursor, error: KafkaError, position: int | None) -> None:
        self.cursor = cursor
        self.error = error
        self.position = position
        self.size = 0


Item: TypeAlias = FetchedBatches | FetchFailure
"""What a stream queues."""

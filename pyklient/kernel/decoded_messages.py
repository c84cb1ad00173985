"""A run of messages that knows how far it was read."""

from collections.abc import Iterator
from itertools import islice
from operator import length_hint
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyklient.kernel._message_py import Message

__all__ = ["Chunk", "Run", "RunChunk"]


class Chunk:
    """Messages of one partition, decoded, in order, with the place that reading them has reached.

    Iterating hands out each message once, however often ``iter()`` is called, and runs no Python code per
    message. Not meant for two readers at a time; any thread may ask for the position, or stop it.
    """

    __slots__ = (
        "_count",
        "_iterator",
        "_messages",
        "_stopped_at",
        "nbytes",
        "next_offset",
        "partition",
        "topic",
    )

    def __init__(
        self, topic: str, partition: int, messages: "list[Message]", next_offset: int, nbytes: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = next_offset
        """The offset to read on from after this chunk, past control records, gaps and aborted batches."""
        self.nbytes = nbytes
        """Bytes of the buffer that this chunk has used up."""
        self._messages = messages
        self._count = len(messages)
        self._iterator: Any = iter(messages)
        self._stopped_at: tuple[int, int, int] | None = None

    def __iter__(self) -> "Iterator[Message]":
        iterator: Iterator[Message] = self._iterator
        return iterator

    def take(self, limit: int) -> "list[Message]":
        """Up to *limit* more messages."""
        return list(islice(self._iterator, limit))

    def left(self) -> "list[Message]":
        """What is still to be handed out, which this does not do."""
        return self._messages[self._count - self.remaining :]

    def stop(self) -> None:
        """Hand out nothing more. The position stays where it is.

        A reader in another thread may still get one message that the position does not count: read
        again elsewhere, never lost.
        """
        if self._stopped_at is None:
            self._stopped_at = (self.handed, self.position, self.last_handed)
            self._end()

    def _end(self) -> None:
        self._iterator.__setstate__(self._count)

    # In each of these the iterator is asked first: what a stop has moved is then seen to be stopped.

    @property
    def handed(self) -> int:
        """How many messages have been handed out."""
        handed = self._count - length_hint(self._iterator)
        return handed if self._stopped_at is None else self._stopped_at[0]

    @property
    def remaining(self) -> int:
        """How many messages are still to be handed out; 0 once stopped."""
        return length_hint(self._iterator)

    @property
    def position(self) -> int:
        """The offset of the next message to be handed out; ``next_offset`` when there is none left."""
        handed = self._count - length_hint(self._iterator)
        if self._stopped_at is not None:
            return self._stopped_at[1]
        return self._messages[handed].offset if handed < self._count else self.next_offset

    @property
    def last_handed(self) -> int:
        """The offset of the message handed out last; -1 before the first."""
        handed = self._count - length_hint(self._iterator)
        if self._stopped_at is not None:
            return self._stopped_at[2]
        return self._messages[handed - 1].offset if handed else -1


class Run(Protocol):
    """An iterator over messages that are made as they are asked for, from bytes that are known to be good."""

    def __length_hint__(self) -> int: ...
    def __iter__(self) -> "Iterator[Message]": ...
    def __next__(self) -> "Message": ...
    def stop(self) -> None: ...
    def rest(self) -> "list[Message]": ...
    @property
    def count(self) -> int: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...


class RunChunk(Chunk):
    """A chunk of messages that are not made before they are handed out.

    It holds on to the buffer that they are in, which must not change until they have been read.
    """

    __slots__ = ("_run",)

    def __init__(self, topic: str, partition: int, run: Run, next_offset: int, nbytes: int) -> None:
        super().__init__(topic, partition, [], next_offset, nbytes)
        self._count = run.count
        self._run = self._iterator = run

    def left(self) -> "list[Message]":
        return self._run.rest()

    def _end(self) -> None:
        self._run.stop()

    @property
    def position(self) -> int:
        offset = self._run.next_offset
        if self._stopped_at is not None:
            return self._stopped_at[1]
        return self.next_offset if offset < 0 else offset

    @property
    def last_handed(self) -> int:
        offset = self._run.last_offset
        return offset if self._stopped_at is None else self._stopped_at[2]

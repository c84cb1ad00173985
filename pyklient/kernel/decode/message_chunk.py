"""Chunks of decoded messages: each has messages of one partition, and counts those that were handed out."""

from collections.abc import Iterator
from itertools import islice
from operator import length_hint
from typing import Any

from pyklient.kernel.decode.message import Message

__all__ = ["Chunk", "IteratorChunk"]


class Chunk:
    """Decoded messages of one partition, in order, with a count of the messages that were handed out.

    Iterating hands out each message once, however often ``iter()`` is called, and runs no Python code per
    message. Only one thread may read at a time; any thread may ask for the position or stop the chunk.
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
        self, topic: str, partition: int, messages: list[Message], next_offset: int, nbytes: int
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.next_offset = next_offset
        """The offset at which reading continues after this chunk, and after the control records, gaps and
        aborted batches that follow it."""
        self.nbytes = nbytes
        """The size in bytes of the part of the fetched buffer that was decoded into this chunk."""
        self._messages = messages
        self._count = len(messages)
        self._iterator: Any = iter(messages)
        self._stopped_at: tuple[int, int, int] | None = None

    def __iter__(self) -> Iterator[Message]:
        iterator: Iterator[Message] = self._iterator
        return iterator

    def hand_out(self, limit: int) -> list[Message]:
        """Return up to *limit* more messages, and count these as handed out."""
        return list(islice(self._iterator, limit))

    def left(self) -> list[Message]:
        """Return the messages that have not been handed out, without handing them out."""
        return self._messages[self._count - self.remaining :]

    def stop(self) -> None:
        """Hand out no more messages from now on. The position does not change.

        If a reader in another thread gets a message meanwhile, the position includes that message.
        """
        if self._stopped_at is None:
            self._stopped_at = (
                self.handed,
                self.position,
                self.last_handed,
            )  # for threads that ask meanwhile
            self._stopped_at = self._end()

    def _end(self) -> tuple[int, int, int]:
        """Exhaust the iterator in one step, so that no further message is handed out. Return ``handed``,
        ``position`` and ``last_handed`` as they were at that moment.

        It is one step because no other thread gets the GIL while ``list`` reads the iterator of a list.
        """
        left = list(self._iterator)
        handed = self._count - len(left)
        return (
            handed,
            left[0].offset if left else self.next_offset,
            self._messages[handed - 1].offset if handed else -1,
        )

    # Each of these asks the iterator first: if a stop has moved it meanwhile, ``_stopped_at`` is set by then.

    @property
    def handed(self) -> int:
        """The number of messages that were handed out."""
        handed = self._count - length_hint(self._iterator)
        return handed if self._stopped_at is None else self._stopped_at[0]

    @property
    def remaining(self) -> int:
        """The number of messages that have not been handed out; 0 after ``stop``."""
        return length_hint(self._iterator)

    @property
    def position(self) -> int:
        """The offset of the next message to hand out, or ``next_offset`` if all messages were handed out."""
        handed = self._count - length_hint(self._iterator)
        if self._stopped_at is not None:
            return self._stopped_at[1]
        return self._messages[handed].offset if handed < self._count else self.next_offset

    @property
    def last_handed(self) -> int:
        """The offset of the last message that was handed out; -1 if none was."""
        handed = self._count - length_hint(self._iterator)
        if self._stopped_at is not None:
            return self._stopped_at[2]
        return self._messages[handed - 1].offset if handed else -1


class IteratorChunk(Chunk):
    """A chunk whose messages are made when they are handed out. *iterator*, a ``MessageIterator`` of the
    compiled kernel, makes them.

    The chunk refers to the buffer of the messages. The buffer must not change until the messages have been
    read.
    """

    __slots__ = ("_message_iterator",)

    def __init__(self, topic: str, partition: int, iterator: Any, next_offset: int, nbytes: int) -> None:
        super().__init__(topic, partition, [], next_offset, nbytes)
        self._count = iterator.count
        self._message_iterator = self._iterator = iterator

    def left(self) -> list[Message]:
        messages: list[Message] = self._message_iterator.remaining_messages()
        return messages

    def _end(self) -> tuple[int, int, int]:
        left, offset, last = self._message_iterator.stop()
        return self._count - left, self.next_offset if offset < 0 else offset, last

    @property
    def position(self) -> int:
        offset: int = self._message_iterator.next_offset
        if self._stopped_at is not None:
            return self._stopped_at[1]
        return self.next_offset if offset < 0 else offset

    @property
    def last_handed(self) -> int:
        offset: int = self._message_iterator.last_offset
        return offset if self._stopped_at is None else self._stopped_at[2]

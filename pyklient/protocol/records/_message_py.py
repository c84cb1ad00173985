"""The two objects that a reader holds: a message, and a run of messages that knows how far it was read."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from operator import attrgetter, length_hint
from typing import Any, Final, NoReturn, cast

from pyklient.protocol.records.layout import HeaderTuple

__all__ = ["Chunk", "Draft", "Message", "finish"]


class Draft:
    """The fields of a message while it is being made."""

    __slots__ = ("headers", "key", "offset", "partition", "timestamp_ms", "timestamp_type", "topic", "value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        timestamp_type: int,
        key: Any,
        value: Any,
        headers: HeaderTuple = (),
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp_ms = timestamp_ms
        self.timestamp_type = timestamp_type
        self.key = key
        self.value = value
        self.headers = headers


class Message(Draft):
    """A record as a reader gets it. Immutable.

    ``timestamp_ms`` counts from 1970, -1 for none; ``timestamp_type`` is 0 where the producer set it
    (CreateTime), 1 where the broker did (LogAppendTime), -1 in the oldest format, which has none. ``key``
    and ``value`` are bytes or None, or what a decoder made of them; ``headers`` are (name, value) pairs.
    """

    __slots__ = ()
    __module__ = "pyklient.protocol.records.kernel"

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        timestamp_ms: int,
        timestamp_type: int,
        key: Any,
        value: Any,
        headers: HeaderTuple = (),
    ) -> None:
        put = object.__setattr__
        put(self, "topic", topic)
        put(self, "partition", partition)
        put(self, "offset", offset)
        put(self, "timestamp_ms", timestamp_ms)
        put(self, "timestamp_type", timestamp_type)
        put(self, "key", key)
        put(self, "value", value)
        put(self, "headers", headers)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a Message cannot be changed: {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Message cannot be changed: {name}")

    def __eq__(self, other: object) -> bool:
        if type(other) is not Message:
            return NotImplemented
        return _all_fields(self) == _all_fields(other)

    def __hash__(self) -> int:
        # not the value: what a decoder made of it need not be hashable
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self) -> str:
        return (
            f"Message(topic={self.topic!r}, partition={self.partition!r}, offset={self.offset!r}, "
            f"timestamp_ms={self.timestamp_ms!r}, timestamp_type={self.timestamp_type!r}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        from pyklient.protocol.records.kernel import restore_message

        return restore_message, _all_fields(self)


_all_fields: Final[Callable[[Draft], tuple[Any, ...]]] = attrgetter(
    "topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"
)

_become: Final[Callable[[Draft, type[Draft]], None]] = object.__dict__["__class__"].__set__


def finish(drafts: list[Draft]) -> list[Message]:
    """Turn the drafts into messages, in place: setting fields past ``__setattr__`` costs twice as much."""
    deque(map(_become, drafts, repeat(Message)), maxlen=0)
    return cast("list[Message]", drafts)


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
        self, topic: str, partition: int, messages: list[Message], next_offset: int, nbytes: int
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

    def __iter__(self) -> Iterator[Message]:
        iterator: Iterator[Message] = self._iterator
        return iterator

    def take(self, limit: int) -> list[Message]:
        """Up to *limit* more messages."""
        return list(islice(self._iterator, limit))

    def stop(self) -> None:
        """Hand out nothing more. The position stays where it is.

        A reader in another thread may still get one message that the position does not count: read
        again elsewhere, never lost.
        """
        if self._stopped_at is None:
            self._stopped_at = (self.handed, self.position, self.last_handed)
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

"""The class Message, in Python. ``message.pxi`` must behave exactly as this module."""

from collections import deque
from collections.abc import Callable
from itertools import repeat
from operator import attrgetter, index
from typing import Any, Final, NoReturn, cast

from pyklient.kernel.pickling import restore_message
from pyklient.protocol.records.layout import Columns, HeaderTuple

__all__ = ["Message", "make_messages"]


class _Draft:
    """The fields of a message while they may still be changed."""

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


class Message(_Draft):
    """A record that was read from a topic. It is immutable.

    ``timestamp_ms`` is in milliseconds since 1970; -1 means no timestamp. ``timestamp_type`` is 0 if the
    producer set the timestamp (CreateTime), 1 if the broker did (LogAppendTime), and -1 in record format 0,
    which has no timestamps. ``key`` and ``value`` are bytes or None, or the result of a decoder. ``headers``
    are (name, value) pairs.
    """

    __slots__ = ()
    __module__ = "pyklient.kernel"

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
        put(self, "partition", _whole(partition, 32))
        put(self, "offset", _whole(offset, 64))
        put(self, "timestamp_ms", _whole(timestamp_ms, 64))
        put(self, "timestamp_type", _whole(timestamp_type, 8))
        put(self, "key", key)
        put(self, "value", value)
        put(self, "headers", headers)

    def __init_subclass__(cls) -> NoReturn:
        # The compiled class has no subclasses either.
        raise TypeError("type 'pyklient.kernel.Message' is not an acceptable base type")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(f"a Message cannot be changed; its {name} cannot be set")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"a Message cannot be changed; its {name} cannot be deleted")

    def __eq__(self, other: object) -> bool:
        if type(other) is not Message:
            return NotImplemented
        return _all_fields(self) == _all_fields(other)

    def __hash__(self) -> int:
        # Without the value: the result of a decoder need not be hashable.
        return hash((self.topic, self.partition, self.offset))

    def __repr__(self) -> str:
        return (
            f"Message(topic={self.topic!r}, partition={self.partition!r}, offset={self.offset!r}, "
            f"timestamp_ms={self.timestamp_ms!r}, timestamp_type={self.timestamp_type!r}, "
            f"key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return restore_message, _all_fields(self)


def _whole(number: int, bits: int) -> int:
    whole = index(number)
    if not -1 << bits - 1 <= whole < 1 << bits - 1:
        raise OverflowError(f"the number {whole} does not fit into {bits} bits")
    return whole


_all_fields: Final[Callable[[_Draft], tuple[Any, ...]]] = attrgetter(
    "topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"
)

_become: Final[Callable[[_Draft, type[_Draft]], None]] = object.__dict__["__class__"].__set__


def _finish(drafts: list[_Draft]) -> list[Message]:
    """Turn *drafts* into messages by changing the class of each object. Calling ``__setattr__`` for each
    field of a new message would take twice as long."""
    deque(map(_become, drafts, repeat(Message)), maxlen=0)
    return cast("list[Message]", drafts)


def make_messages(topic: str, partition: int, timestamp_type: int, columns: Columns) -> list[Message]:
    """Return one message for each record in *columns*, whose keys and values may have been decoded."""
    offsets, timestamps, keys, values, headers = columns
    fields = repeat(topic), repeat(partition), offsets, timestamps, repeat(timestamp_type), keys, values
    drafts = list(map(_Draft, *fields))
    for position, of_one in headers.items():
        if position < len(drafts):
            drafts[position].headers = of_one
    return _finish(drafts)

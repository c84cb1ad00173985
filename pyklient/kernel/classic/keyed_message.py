"""KeyedMessage, a message as a program passes it to the producer of Kafka 0.8 to 0.10, and the loops over the
messages of a batch. Written in Python; the compiled kernel must behave exactly as this module."""

from collections.abc import Iterable
from typing import Any

__all__ = ["KeyedMessage", "by_topic", "count_within", "plain_bytes"]


class KeyedMessage:
    """A message for *topic*, with a key and a partition key, which may both be None.

    The brokers store the message and the key, after the encoders have turned them into bytes. The partition
    key only decides the partition. Without a partition key, the key decides the partition. Key and partition
    key must be passed by keyword, because their order differs from Kafka's constructor, where they precede
    the message.
    """

    __slots__ = ("key", "message", "part_key", "topic")
    __module__ = "pyklient.kernel"

    def __init__(self, topic: str, message: Any, *, key: Any = None, part_key: Any = None) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"the topic of a KeyedMessage must be a str, not {topic!r}")
        self.topic = topic
        self.message = message
        self.key = key
        self.part_key = part_key

    def __delattr__(self, name: str) -> None:
        if name in KeyedMessage.__slots__:
            raise AttributeError(f"the {name} of a KeyedMessage cannot be deleted")
        object.__delattr__(self, name)

    @property
    def partition_key(self) -> Any:
        """The object that decides the partition: the partition key, or the key if there is no partition
        key."""
        return self.key if self.part_key is None else self.part_key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, KeyedMessage):
            return NotImplemented
        return (self.topic, self.message, self.key, self.part_key) == (
            other.topic,
            other.message,
            other.key,
            other.part_key,
        )

    def __repr__(self) -> str:
        part = "" if self.part_key is None else f", part_key={self.part_key!r}"
        return f"KeyedMessage({self.topic!r}, {self.message!r}, key={self.key!r}{part})"


def by_topic(
    messages: Iterable[Any],
) -> list[tuple[str, list[KeyedMessage], list[bytes | None]]] | None:
    """Return messages without keys by topic, as tuples (topic, messages, values).

    Return None if one of *messages* is no KeyedMessage, has a key or a partition key, or if its value is
    neither bytes nor None.
    """
    groups: dict[str, tuple[str, list[KeyedMessage], list[bytes | None]]] = {}
    for message in messages:
        if message.__class__ is not KeyedMessage:
            return None
        topic, value = message.topic, message.message
        if message.key is not None or message.part_key is not None or topic.__class__ is not str:
            return None
        if value is not None and value.__class__ is not bytes:
            return None
        group = groups.get(topic)
        if group is None:
            group = groups[topic] = (topic, [], [])
        group[1].append(message)
        group[2].append(value)
    return list(groups.values())


def plain_bytes(
    messages: Iterable[Any], keeps_keys: bool
) -> tuple[list[bytes | None], list[bytes | None] | None] | None:
    """Return the values and the keys of *messages*. The keys are None if no message has a key.

    Return None if one of *messages* is no KeyedMessage, if a value or a key is neither bytes nor None, or if
    there is a key and *keeps_keys* is false.
    """
    values: list[bytes | None] = []
    keys: list[bytes | None] = []
    for message in messages:
        if message.__class__ is not KeyedMessage:
            return None
        value, key = message.message, message.key
        if value is not None and value.__class__ is not bytes:
            return None
        if key is not None and (key.__class__ is not bytes or not keeps_keys):
            return None
        values.append(value)
        keys.append(key)
    return values, None if all(key is None for key in keys) else keys


def count_within(
    values: list[bytes | None], keys: list[bytes | None] | None, begin: int, most: int, overhead: int
) -> int:
    """Return how many records, from the index *begin* on, have at most *most* bytes together.

    A record has the bytes of its value and of its key, and *overhead* bytes. *keys* are in the order of
    *values*; None if no record has a key.
    """
    for index in range(begin, len(values)):
        most -= overhead + len(values[index] or b"")
        if keys is not None:
            most -= len(keys[index] or b"")
        if most < 0:
            return index - begin
    return max(0, len(values) - begin)

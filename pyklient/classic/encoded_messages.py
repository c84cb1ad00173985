"""Messages as bytes, in the form in which a classic producer sorts them by partition and sends them."""

from typing import Any, Self

__all__ = ["EncodedMessages"]


class EncodedMessages:
    """Messages in the order in which they are sent: as the program has given them, and as bytes.

    ``given`` has the KeyedMessages, or the QueueItems of a producer that follows the rules of Kafka 0.7.
    ``values`` and ``keys`` have the bytes of the messages and of their keys, in the same order; ``keys`` is
    None if no message has a key. ``keyless_topic`` is the topic of all messages if none has a key or a
    partition key, and None if the messages have to be looked at one by one.
    """

    __slots__ = ("given", "keyless_topic", "keys", "values")

    def __init__(
        self,
        given: list[Any],
        values: list[bytes | None],
        keys: list[bytes | None] | None,
        keyless_topic: str | None = None,
    ) -> None:
        self.given = given
        self.values = values
        self.keys = keys
        self.keyless_topic = keyless_topic

    def __len__(self) -> int:
        return len(self.given)

    @property
    def topics(self) -> set[str]:
        """The topics of the messages."""
        if self.keyless_topic is not None:
            return {self.keyless_topic}
        return {each.topic for each in self.given}

    def append(self, given: Any, value: bytes | None, key: bytes | None) -> None:
        """Add a message of any topic at the end."""
        if self.keys is None and key is not None:
            self.keys = [None] * len(self.given)
        if self.keys is not None:
            self.keys.append(key)
        self.given.append(given)
        self.values.append(value)

    def part(self, begin: int, end: int | None = None) -> Self:
        """Return the messages from the index *begin* up to the index *end*, which is not included. Without
        *end*, return all messages from *begin* on."""
        if begin == 0 and (end is None or end == len(self)):
            return self
        keys = None if self.keys is None else self.keys[begin:end]
        return type(self)(self.given[begin:end], self.values[begin:end], keys, self.keyless_topic)

    @classmethod
    def joined(cls, first: Self | None, second: Self) -> Self:
        """Return the messages of *first* and then those of *second*, for the same partition."""
        if first is None:
            return second
        keys = None
        if first.keys is not None or second.keys is not None:
            keys = [*(first.keys or [None] * len(first)), *(second.keys or [None] * len(second))]
        topic = first.keyless_topic if first.keyless_topic == second.keyless_topic else None
        return cls([*first.given, *second.given], [*first.values, *second.values], keys, topic)

"""KeyedMessage: a message as a program passes it to the producer of Kafka 0.8 to 0.10."""

from typing import Any

__all__ = ["KeyedMessage"]


class KeyedMessage:
    """A message for *topic*, with a key and a partition key, which may both be None.

    The message and the key are stored, after the encoders have turned them into bytes. The partition key only
    decides the partition. Without a partition key, the key decides the partition. Key and partition key are
    keyword arguments, because Kafka's constructor has them before the message.
    """

    __slots__ = ("key", "message", "part_key", "topic")

    def __init__(self, topic: str, message: Any, *, key: Any = None, part_key: Any = None) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"a KeyedMessage needs a topic, which is a str, not {topic!r}")
        self.topic = topic
        self.message = message
        self.key = key
        self.part_key = part_key

    @property
    def partition_key(self) -> Any:
        """The object that decides the partition: the partition key, or else the key."""
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

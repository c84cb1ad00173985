"""ProducerData: messages as a program passes them to the producer of Kafka 0.7."""

from collections.abc import Sequence
from typing import Any

__all__ = ["ProducerData"]


class ProducerData:
    """Messages for one topic, which go to one partition together. The key only decides the partition; it is
    not stored.

    *data* is a list or tuple of messages. Any other object is one message.
    """

    __slots__ = ("data", "key", "topic")

    def __init__(self, topic: str, data: Any, *, key: Any = None) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"the topic of a ProducerData must be a str, not {topic!r}")
        self.topic = topic
        self.data: Sequence[Any] = data if isinstance(data, list | tuple) else (data,)
        self.key = key

    def __repr__(self) -> str:
        return f"ProducerData({self.topic!r}, {self.data!r}, key={self.key!r})"

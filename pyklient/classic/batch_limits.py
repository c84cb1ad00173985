"""Limits the messages of a partition that a classic producer sends in one request.

Since Kafka 0.11, all messages of a partition in a request are one batch, and a broker limits the bytes of a
batch. Brokers before 0.11 only limit the bytes of a message, and of a compressed set of messages.
"""

from collections.abc import Sequence
from typing import Final

from pyklient.classic.keyed_message import KeyedMessage

__all__ = ["BatchLimits"]

_DEFAULT_BYTES: Final = 1_000_000
"""The largest batch in bytes, as long as no broker has rejected one. Brokers allow 1,048,588 bytes by
default, including the headers."""
_OVERHEAD: Final = 34
"""The size in bytes of a message in format 1, without its key and value. In format 2, it is smaller."""


class BatchLimits:
    """The largest batch for each topic, in bytes before compression."""

    def __init__(self) -> None:
        self._bytes: dict[str, int] = {}

    def count(self, topic: str, group: Sequence[KeyedMessage]) -> int:
        """Return the number of messages, from the start of *group*, that fit into one request. The result is
        at least 1."""
        left = self._bytes.get(topic, _DEFAULT_BYTES)
        values = [message.message for message in group]
        keys = [message.key for message in group]
        total = sum(map(len, filter(None, values))) + sum(map(len, filter(None, keys)))
        if total + _OVERHEAD * len(group) <= left:
            return len(group)
        for index, (value, key) in enumerate(zip(values, keys, strict=True)):
            left -= len(value or b"") + len(key or b"") + _OVERHEAD
            if left < 0:
                return max(1, index)
        return len(group)

    def halve(self, topic: str, part: Sequence[KeyedMessage]) -> None:
        """Make the following batches at most half as large as *part*, which a broker has rejected as too
        large."""
        size = sum(len(message.message or b"") + len(message.key or b"") + _OVERHEAD for message in part)
        self._bytes[topic] = size // 2

"""How many messages of a partition a classic producer sends with one request.

Since Kafka 0.11, all messages of a partition in a request are one batch, and a broker limits the bytes of a
batch. Before, it limited only the bytes of a message, and of a compressed set of messages.
"""

from collections.abc import Sequence
from typing import Final

from pyklient.classic.keyed_message import KeyedMessage

__all__ = ["BatchLimits"]

_DEFAULT_BYTES: Final = 1_000_000
"""A little less than the default limit of brokers, which is 1,048,588 bytes with the headers."""
_OVERHEAD: Final = 34
"""The bytes of a message in format 1, without its key and value. In format 2 it has fewer."""


class BatchLimits:
    """The largest batch for each topic, in bytes before compression."""

    def __init__(self) -> None:
        self._bytes: dict[str, int] = {}

    def count(self, topic: str, group: Sequence[KeyedMessage]) -> int:
        """Return how many of the first messages of *group* one request may have, which is at least one."""
        left = self._bytes.get(topic, _DEFAULT_BYTES)
        sizes = [len(message.message or b"") for message in group]
        if not any(message.key for message in group) and sum(sizes) + _OVERHEAD * len(sizes) <= left:
            return len(group)
        for index, (size, message) in enumerate(zip(sizes, group, strict=True)):
            left -= size + len(message.key or b"") + _OVERHEAD
            if left < 0:
                return max(1, index)
        return len(group)

    def halve(self, topic: str, part: Sequence[KeyedMessage]) -> None:
        """Send batches of half the bytes of *part* from now on, because a broker has found it too large."""
        size = sum(len(message.message or b"") + len(message.key or b"") + _OVERHEAD for message in part)
        self._bytes[topic] = size // 2

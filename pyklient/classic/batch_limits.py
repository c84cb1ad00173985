"""Limits the messages of a partition that a classic producer sends in one request.

Since Kafka 0.11, all messages of a partition in a request are one batch, and a broker limits the bytes of a
batch. Brokers before 0.11 only limit the bytes of a message, and of a compressed set of messages.
"""

from typing import Final

from pyklient.classic.encoded_messages import EncodedMessages
from pyklient.kernel import count_within

__all__ = ["BatchLimits"]

_DEFAULT_BYTES: Final = 1_000_000
"""The largest size of a batch in bytes, until a broker rejects a batch as too large. Brokers allow 1,048,588
bytes by default, including the headers."""
_OVERHEAD: Final = 34
"""The largest number of bytes that a message needs besides its key and value. Message format 1 needs this
number; the formats 0 and 2 need fewer bytes."""


class BatchLimits:
    """The largest batch for each topic, in bytes before compression."""

    def __init__(self) -> None:
        self._bytes: dict[str, int] = {}

    def count(self, topic: str, group: EncodedMessages, begin: int) -> int:
        """Return how many messages of *group* fit into one request, beginning with the message at the index
        *begin*. The result is at least 1."""
        most = self._bytes.get(topic, _DEFAULT_BYTES)
        return max(1, count_within(group.values, group.keys, begin, most, _OVERHEAD))

    def halve(self, topic: str, part: EncodedMessages) -> None:
        """Make the following batches for *topic* at most half as large as *part*, which a broker has rejected
        as too large."""
        keys = part.keys or ()
        size = sum(map(len, filter(None, part.values))) + sum(map(len, filter(None, keys)))
        self._bytes[topic] = (size + _OVERHEAD * len(part)) // 2

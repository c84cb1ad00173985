"""The options that limit the accumulator, and the errors for records that exceed the limits."""

from typing import NamedTuple

from pyklient.errors import BufferFullError, MessageTooLargeError
from pyklient.kernel import Appender

__all__ = ["Limits"]


class Limits(NamedTuple):
    """The options that limit the accumulator. Sizes are in bytes, and times in seconds."""

    batch_size: int
    buffer_memory: int
    max_request_size: int
    max_block: float
    linger: float

    def check_record(self, topic: str, size: int) -> None:
        """Raise MessageTooLargeError if a record of *size* bytes for *topic* can never be sent."""
        if size > self.max_request_size:
            raise MessageTooLargeError(
                f"a record of {size:,} bytes for topic {topic!r} is above "
                f"max_request_size={self.max_request_size:,}; raise that option, and the topic's "
                "max.message.bytes if needed"
            )
        if size + Appender.OVERHEAD > self.buffer_memory:
            raise MessageTooLargeError(
                f"a record of {size:,} bytes for topic {topic!r} does not fit into "
                f"buffer_memory={self.buffer_memory:,}; raise that option"
            )

    def holds_batch(self, size: int) -> bool:
        """Return True if a batch of *size* bytes is not larger than the options allow."""
        return size <= self.max_request_size and size + Appender.OVERHEAD <= self.buffer_memory

    def buffer_full(self, topic: str, reason: str) -> BufferFullError:
        """Return the error for a record or batch of *topic* that was not accepted because of *reason*."""
        return BufferFullError(
            f"a record for topic {topic!r} was not accepted: buffer_memory={self.buffer_memory:,} is "
            f"full of records that are not confirmed yet ({reason}); the broker may be slow or unreachable"
        )

    def not_released(self, topic: str) -> BufferFullError:
        """Return the error for a record of *topic* that has waited for memory for ``max_block``."""
        return self.buffer_full(
            topic, f"no memory was released within max_block_ms={self.max_block * 1000:.0f}"
        )

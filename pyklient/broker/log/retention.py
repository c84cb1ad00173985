"""Decides which old segments of a log are deleted (retention)."""

from collections.abc import Sequence

from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.segment import Segment

__all__ = ["expired_segments"]


def expired_segments(segments: Sequence[Segment], config: LogConfig, now_ms: int) -> int:
    """Return the number of old *segments* that must be deleted, as ``retention.ms`` and ``retention.bytes``
    require.

    ``retention.ms`` may delete all segments. ``retention.bytes`` always keeps the last segment.
    """
    count = 0
    if config.retention_ms >= 0:
        while (
            count < len(segments)
            and segments[count].size
            and now_ms - _newest_ms(segments[count]) > config.retention_ms
        ):
            count += 1
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in segments[count:]) - config.retention_bytes
        while count < len(segments) - 1 and excess >= segments[count].size:
            excess -= segments[count].size
            count += 1
    return count


def _newest_ms(segment: Segment) -> int:
    return segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()

"""The settings of a topic that the logs of its partitions use."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LogConfig"]


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Limits of segments, batches and retention of a log, and whether its records get the time at which they
    are appended."""

    segment_bytes: int
    index_interval_bytes: int
    index_max_bytes: int
    max_message_bytes: int
    retention_ms: int
    retention_bytes: int
    log_append_time: bool

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "LogConfig":
        """Return the settings of logs from *values*, which has the checked value of every topic setting by
        Kafka's name."""
        return cls(
            segment_bytes=int(values["segment.bytes"]),
            index_interval_bytes=int(values["index.interval.bytes"]),
            index_max_bytes=int(values["segment.index.bytes"]),
            max_message_bytes=int(values["max.message.bytes"]),
            retention_ms=int(values["retention.ms"]),
            retention_bytes=int(values["retention.bytes"]),
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        )

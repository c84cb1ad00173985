"""The settings of a topic that the logs of its partitions use."""

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LogConfig"]


@dataclass(frozen=True, slots=True)
class LogConfig:
    """The settings of a log: the limits of its segments, batches and retention, and whether the broker
    replaces the timestamps of records with the time of the append (``log_append_time``)."""

    segment_bytes: int
    index_interval_bytes: int
    index_max_bytes: int
    max_message_bytes: int
    retention_ms: int
    retention_bytes: int
    log_append_time: bool

    @classmethod
    def of(cls, values: Mapping[str, str]) -> "LogConfig":
        """Return the settings of a log. *values* maps the name of each topic setting in Kafka to its value.
        The values must have been validated.

        The retention limits apply only if ``cleanup.policy`` contains ``delete``.
        """
        deletes = "delete" in [word.strip() for word in values["cleanup.policy"].split(",")]
        return cls(
            segment_bytes=int(values["segment.bytes"]),
            index_interval_bytes=int(values["index.interval.bytes"]),
            index_max_bytes=int(values["segment.index.bytes"]),
            max_message_bytes=int(values["max.message.bytes"]),
            retention_ms=int(values["retention.ms"]) if deletes else -1,
            retention_bytes=int(values["retention.bytes"]) if deletes else -1,
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        )

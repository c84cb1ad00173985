"""The settings of a topic: Kafka's names, what values they take, and which of them this broker acts upon."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pyklient.broker.api_errors import Refusal
from pyklient.broker.config import BrokerSettings
from pyklient.error_codes import ErrorCode

__all__ = ["ConfigKind", "TopicConfig", "topic_config_kinds"]

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1

# Numbers of the protocol's config types (DescribeConfigs v3+).
_STRING, _INT, _LONG, _DOUBLE, _LIST, _BOOLEAN = 2, 3, 5, 6, 7, 1


class ConfigKind(NamedTuple):
    """One setting: its wire type, default, permitted range or words, and a sentence."""

    name: str
    wire_type: int
    default: str
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()
    sentence: str = ""

    def check(self, value: str | None) -> None:
        """Raises Refusal (INVALID_CONFIG) unless *value* may be given."""
        if value is None:
            raise Refusal(ErrorCode.INVALID_CONFIG, f"{self.name} needs a value")
        if self.words:
            given = value.split(",") if self.wire_type == _LIST else [value]
            if not all(word.strip() in self.words for word in given):
                raise Refusal(
                    ErrorCode.INVALID_CONFIG,
                    f"{self.name} must be one of {', '.join(self.words)}, not {value!r}",
                )
        elif self.wire_type in (_INT, _LONG):
            self._check_number(value)

    def _check_number(self, value: str) -> None:
        try:
            number = int(value)
        except ValueError:
            raise Refusal(
                ErrorCode.INVALID_CONFIG, f"{self.name} must be a whole number, not {value!r}"
            ) from None
        if not self.low <= number <= self.high:
            raise Refusal(
                ErrorCode.INVALID_CONFIG,
                f"{self.name} must be between {self.low} and {self.high}, not {number}",
            )


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """What a partition's log acts upon."""

    segment_bytes: int
    index_interval_bytes: int
    index_max_bytes: int
    max_message_bytes: int
    retention_ms: int
    retention_bytes: int
    log_append_time: bool

    @classmethod
    def of(cls, settings: BrokerSettings, given: Mapping[str, str]) -> "TopicConfig":
        """The broker's defaults with the topic's own settings on top (checked before)."""
        values = {kind.name: given.get(kind.name, kind.default) for kind in topic_config_kinds(settings)}
        return cls(
            segment_bytes=int(values["segment.bytes"]),
            index_interval_bytes=int(values["index.interval.bytes"]),
            index_max_bytes=int(values["segment.index.bytes"]),
            max_message_bytes=int(values["max.message.bytes"]),
            retention_ms=int(values["retention.ms"]),
            retention_bytes=int(values["retention.bytes"]),
            log_append_time=values["message.timestamp.type"] == "LogAppendTime",
        )


def topic_config_kinds(settings: BrokerSettings) -> list[ConfigKind]:
    """All settings a topic may be given, with this broker's defaults.

    The ones below the line are accepted, kept and reported, so that programs which set them run; they
    change nothing here (nothing is compacted, recompressed or replicated).
    """
    return [
        ConfigKind(
            "segment.bytes",
            _INT,
            str(settings.segment_bytes),
            14,
            _INT32,
            sentence="A new segment file is begun before one grows beyond this.",
        ),
        ConfigKind(
            "index.interval.bytes",
            _INT,
            str(settings.index_interval_bytes),
            0,
            _INT32,
            sentence="An index entry is made after this many bytes.",
        ),
        ConfigKind(
            "segment.index.bytes",
            _INT,
            str(settings.index_max_bytes),
            8,
            _INT32,
            sentence="A segment ends when its index has this size.",
        ),
        ConfigKind(
            "max.message.bytes",
            _INT,
            str(settings.message_max_bytes),
            0,
            _INT32,
            sentence="The largest batch taken.",
        ),
        ConfigKind(
            "retention.ms",
            _LONG,
            str(settings.retention_ms),
            -1,
            _INT64,
            sentence="Segments whose newest record is older are deleted; -1 keeps them.",
        ),
        ConfigKind(
            "retention.bytes",
            _LONG,
            str(settings.retention_bytes),
            -1,
            _INT64,
            sentence="Old segments are deleted while the partition is larger; -1 keeps them.",
        ),
        ConfigKind(
            "message.timestamp.type",
            _STRING,
            "CreateTime",
            words=("CreateTime", "LogAppendTime"),
            sentence="Whose clock stamps the records: the producer's or the broker's.",
        ),
        # ----
        ConfigKind(
            "compression.type",
            _STRING,
            "producer",
            words=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ),
        ConfigKind("cleanup.policy", _LIST, "delete", words=("compact", "delete")),
        ConfigKind("delete.retention.ms", _LONG, "86400000", 0, _INT64),
        ConfigKind("file.delete.delay.ms", _LONG, "60000", 0, _INT64),
        ConfigKind("flush.messages", _LONG, str(_INT64), 1, _INT64),
        ConfigKind("flush.ms", _LONG, str(_INT64), 0, _INT64),
        ConfigKind("max.compaction.lag.ms", _LONG, str(_INT64), 1, _INT64),
        ConfigKind("message.downconversion.enable", _BOOLEAN, "true", words=("true", "false")),
        ConfigKind("message.timestamp.after.max.ms", _LONG, "3600000", 0, _INT64),
        ConfigKind("message.timestamp.before.max.ms", _LONG, str(_INT64), 0, _INT64),
        ConfigKind("message.timestamp.difference.max.ms", _LONG, str(_INT64), 0, _INT64),
        ConfigKind("min.cleanable.dirty.ratio", _DOUBLE, "0.5"),
        ConfigKind("min.compaction.lag.ms", _LONG, "0", 0, _INT64),
        ConfigKind("min.insync.replicas", _INT, "1", 1, _INT32),
        ConfigKind("preallocate", _BOOLEAN, "false", words=("true", "false")),
        ConfigKind("segment.jitter.ms", _LONG, "0", 0, _INT64),
        ConfigKind("segment.ms", _LONG, "604800000", 1, _INT64),
        ConfigKind("unclean.leader.election.enable", _BOOLEAN, "false", words=("true", "false")),
    ]

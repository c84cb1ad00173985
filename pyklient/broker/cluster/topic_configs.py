"""The settings of a topic: their names, types, defaults and permitted values, as in Kafka."""

from enum import IntEnum
from typing import NamedTuple

from pyklient.broker.api_errors import ApiError
from pyklient.broker.config import BrokerConfig
from pyklient.error_codes import ErrorCode

__all__ = ["ConfigSource", "ConfigType", "TopicConfigDef", "topic_config_defs"]

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1


class ConfigType(IntEnum):
    """Types of topic settings, as in DescribeConfigs from version 3 on."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """The origin of a setting's value in CreateTopics and DescribeConfigs responses: the topic itself, the
    broker's options, or Kafka's default."""

    TOPIC = 1
    STATIC_BROKER = 4
    DEFAULT = 5


class TopicConfigDef(NamedTuple):
    """A setting that topics can have: its type, its default, and the numbers or words that are allowed as its
    value.

    ``sentence`` describes the effect of the setting. It is empty if the setting has no effect in this broker.
    """

    name: str
    type: ConfigType
    default: str
    low: int = 0
    high: int = 0
    words: tuple[str, ...] = ()
    sentence: str = ""

    def check(self, value: str | None) -> None:
        """Raise ApiError (INVALID_CONFIG) if *value* is not allowed for this setting."""
        if value is None:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"the topic setting {self.name} needs a value")
        if self.words:
            given = value.split(",") if self.type == ConfigType.LIST else [value]
            if not all(word.strip() in self.words for word in given):
                raise ApiError(
                    ErrorCode.INVALID_CONFIG,
                    f"the topic setting {self.name} must be one of {', '.join(self.words)}, not {value!r}",
                )
        elif self.type in (ConfigType.INT, ConfigType.LONG):
            self._check_number(value)

    def _check_number(self, value: str) -> None:
        try:
            number = int(value)
        except ValueError:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"the topic setting {self.name} must be a whole number, not {value!r}",
            ) from None
        if not self.low <= number <= self.high:
            raise ApiError(
                ErrorCode.INVALID_CONFIG,
                f"the topic setting {self.name} must be between {self.low} and {self.high}, not {number}",
            )


_WITHOUT_EFFECT = (
    TopicConfigDef(
        "compression.type",
        ConfigType.STRING,
        "producer",
        words=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    ),
    TopicConfigDef("delete.retention.ms", ConfigType.LONG, "86400000", 0, _INT64),
    TopicConfigDef("file.delete.delay.ms", ConfigType.LONG, "60000", 0, _INT64),
    TopicConfigDef("flush.messages", ConfigType.LONG, str(_INT64), 1, _INT64),
    TopicConfigDef("flush.ms", ConfigType.LONG, str(_INT64), 0, _INT64),
    TopicConfigDef("max.compaction.lag.ms", ConfigType.LONG, str(_INT64), 1, _INT64),
    TopicConfigDef("message.downconversion.enable", ConfigType.BOOLEAN, "true", words=("true", "false")),
    TopicConfigDef("message.timestamp.after.max.ms", ConfigType.LONG, "3600000", 0, _INT64),
    TopicConfigDef("message.timestamp.before.max.ms", ConfigType.LONG, str(_INT64), 0, _INT64),
    TopicConfigDef("message.timestamp.difference.max.ms", ConfigType.LONG, str(_INT64), 0, _INT64),
    TopicConfigDef("min.cleanable.dirty.ratio", ConfigType.DOUBLE, "0.5"),
    TopicConfigDef("min.compaction.lag.ms", ConfigType.LONG, "0", 0, _INT64),
    TopicConfigDef("min.insync.replicas", ConfigType.INT, "1", 1, _INT32),
    TopicConfigDef("preallocate", ConfigType.BOOLEAN, "false", words=("true", "false")),
    TopicConfigDef("segment.jitter.ms", ConfigType.LONG, "0", 0, _INT64),
    TopicConfigDef("segment.ms", ConfigType.LONG, "604800000", 1, _INT64),
    TopicConfigDef("unclean.leader.election.enable", ConfigType.BOOLEAN, "false", words=("true", "false")),
)


def topic_config_defs(config: BrokerConfig) -> list[TopicConfigDef]:
    """Return all settings that a topic may have, with the defaults from *config*.

    The broker applies only the settings that have a ``sentence``. The other settings, such as those of
    replication, have no effect. The broker still accepts, stores and reports them, so that programs that set
    them can run.
    """
    return [
        TopicConfigDef(
            "segment.bytes",
            ConfigType.INT,
            str(config.segment_bytes),
            14,
            _INT32,
            sentence="Start a new segment before the current one exceeds this size.",
        ),
        TopicConfigDef(
            "index.interval.bytes",
            ConfigType.INT,
            str(config.index_interval_bytes),
            0,
            _INT32,
            sentence="Add an entry to a segment's index after this many bytes.",
        ),
        TopicConfigDef(
            "segment.index.bytes",
            ConfigType.INT,
            str(config.index_max_bytes),
            8,
            _INT32,
            sentence="Start a new segment when the index of the current one has this size.",
        ),
        TopicConfigDef(
            "max.message.bytes",
            ConfigType.INT,
            str(config.message_max_bytes),
            0,
            _INT32,
            sentence="The largest batch that is accepted, in bytes.",
        ),
        TopicConfigDef(
            "retention.ms",
            ConfigType.LONG,
            str(config.retention_ms),
            -1,
            _INT64,
            sentence="Delete segments whose newest record is older than this; -1 keeps them.",
        ),
        TopicConfigDef(
            "retention.bytes",
            ConfigType.LONG,
            str(config.retention_bytes),
            -1,
            _INT64,
            sentence="Delete the oldest segments while the partition is larger than this; -1 keeps them.",
        ),
        TopicConfigDef(
            "message.timestamp.type",
            ConfigType.STRING,
            "CreateTime",
            words=("CreateTime", "LogAppendTime"),
            sentence="With CreateTime, records keep the producer's timestamp. With LogAppendTime, they get "
            "the time of the append.",
        ),
        TopicConfigDef(
            "cleanup.policy",
            ConfigType.LIST,
            "delete",
            words=("compact", "delete"),
            sentence="With delete, retention.ms and retention.bytes apply. With compact alone, they do not. "
            "Only `__consumer_offsets` and `__transaction_state` are compacted.",
        ),
        *_WITHOUT_EFFECT,
    ]

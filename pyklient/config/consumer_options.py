"""The options of ConsumerConnector and of read(). Each option is declared once, here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pyklient.assignor import Assignor
from pyklient.config.assignment_strategy import parse_strategy
from pyklient.config.client_options import ClientConfig
from pyklient.config.offset_reset import duration_of
from pyklient.config.option import MIB, option
from pyklient.errors import ConfigurationError

__all__ = ["NOT_READ", "ConsumerConfig"]

NOT_READ: Final = frozenset(
    {
        "auto_commit_interval_ms",
        "auto_offset_reset",
        "client_rack",
        "consumer_id",
        "coordination",
        "dual_commit_enabled",
        "enable_auto_commit",
        "exclude_internal_topics",
        "group_id",
        "group_instance_id",
        "offsets_channel_backoff_ms",
        "offsets_channel_socket_timeout_ms",
        "offsets_commit_max_retries",
        "offsets_retention_ms",
        "offsets_storage",
        "queued_max_message_chunks",
        "rebalance_backoff_ms",
        "rebalance_max_retries",
        "shallowiterator_enable",
    }
)
"""The options of ConsumerConfig that read() does not have, because it joins no group and has one stream."""

_FOR_GROUPS: Final = ("coordination", "offsets_storage", "dual_commit_enabled")
_NODE_NAME: Final = re.compile(r"(?!\.{1,2}\Z)[a-zA-Z0-9._-]{1,255}")


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(ClientConfig):
    """Options of ConsumerConnector and of read()."""

    client: ClassVar[str] = "ConsumerConnector or read()"

    group_id: str | None = option(
        None,
        "name of the consumer group, whose members share the partitions of the topics; without a group, "
        "all partitions are read and nothing is committed",
    )
    group_instance_id: str | None = option(
        None,
        "name of the member that stays the same across restarts, so that a quick restart causes no "
        "rebalance (KIP-345)",
    )
    partition_assignment_strategy: str | Assignor | Sequence[str | Assignor] = option(
        "range",
        "assignor by which the group assigns partitions to its members, or a list of assignors in order of "
        "preference: range, roundrobin, sticky, cooperative-sticky, or an object of a subclass of "
        "pyklient.Assignor; the group uses an assignor that all members have. Groups that ZooKeeper "
        "coordinates have range and roundrobin only",
    )
    client_rack: str | None = option(
        None,
        "rack of this client: the assignors range, sticky and cooperative-sticky prefer partitions that have "
        "a replica in this rack (KIP-881); messages are still fetched from the leaders",
    )
    coordination: str = option(
        "kafka",
        "kafka: a broker coordinates the group, as in all clients since Kafka 0.9; zookeeper: the members "
        "coordinate themselves through ZooKeeper, as the Scala consumer does (only in pyklient)",
        choices=("kafka", "zookeeper"),
    )
    offsets_storage: str | None = option(
        None,
        "where the group commits its offsets: kafka or zookeeper; by default, the same as coordination",
        choices=("kafka", "zookeeper", None),
    )
    offsets_retention_ms: int | None = option(
        None,
        "how long Kafka keeps the offsets that the group commits, from each commit on; by default as long as "
        "offsets.retention.minutes of the brokers says (needs Kafka 0.9 or later; only in pyklient)",
        at_least=1,
    )
    offsets_commit_max_retries: int | None = option(
        None,
        "largest number of retries when offsets are committed to Kafka; by default, only the time-out of the "
        "commit is a limit",
        at_least=0,
    )
    offsets_channel_backoff_ms: int | None = option(
        None,
        "pause before offsets are committed to Kafka again; by default, that of retry_backoff_ms",
        at_least=0,
    )
    offsets_channel_socket_timeout_ms: int | None = option(
        None,
        "longest wait for the response when offsets are committed to Kafka; by default request_timeout_ms",
        at_least=1,
    )
    dual_commit_enabled: bool | None = option(
        None,
        "commit offsets to both Kafka and ZooKeeper, and resume at the larger one; by default on if "
        "coordination is zookeeper and offsets_storage is kafka",
    )
    rebalance_max_retries: int = option(
        4,
        "largest number of attempts to divide the partitions of a group that ZooKeeper coordinates; if all "
        "fail, the connector raises an error",
        at_least=1,
    )
    rebalance_backoff_ms: int = option(
        2_000,
        "pause between two attempts to divide the partitions of a group that ZooKeeper coordinates. All "
        "attempts together should last longer than zookeeper_session_timeout_ms, because ZooKeeper frees the "
        "partitions of a member that was killed only after that time",
        at_least=0,
    )
    consumer_id: str | None = option(
        None,
        "last part of the member's id in a group that ZooKeeper coordinates; by default host, time and a "
        "random number",
    )
    exclude_internal_topics: bool = option(
        True, "leave out topics such as __consumer_offsets when topics are chosen by a filter"
    )
    session_timeout_ms: int = option(
        45_000, "the group removes a member that sends no heartbeat for this long", at_least=1
    )
    heartbeat_interval_ms: int = option(3_000, "time between two heartbeats", at_least=1)
    rebalance_timeout_ms: int = option(
        60_000,
        "longest time that a rebalance waits for all members to join (only in pyklient; Kafka uses "
        "max.poll.interval.ms)",
        at_least=1,
    )
    max_poll_interval_ms: int = option(
        300_000,
        "a member leaves the group if its loop does not ask for the next message for this long, although a "
        "message is waiting",
        at_least=1,
    )
    auto_offset_reset: str = option(
        "latest",
        "where a partition without a committed offset begins: at the oldest message (earliest), at messages "
        "that arrive from now on (latest), at messages that are at most this old (by_duration:PT1H, in the "
        "format of ISO 8601), or nowhere, with an error (none)",
        choices=("earliest", "latest", "none"),
        also=("by_duration:PT1H", duration_of),
    )
    enable_auto_commit: bool = option(
        True, "commit the messages that the loop has finished, every auto_commit_interval_ms and on close"
    )
    auto_commit_interval_ms: int = option(5_000, "time between two automatic commits", at_least=1)
    isolation_level: str = option(
        "read_uncommitted",
        "read_committed leaves out records of aborted and open transactions",
        choices=("read_uncommitted", "read_committed"),
    )
    fetch_min_bytes: int = option(
        1,
        "the broker waits until a fetch response has this many bytes, but not longer than fetch_max_wait_ms",
        at_least=0,
    )
    fetch_max_wait_ms: int = option(500, "longest time that the broker waits for fetch_min_bytes", at_least=0)
    fetch_max_bytes: int = option(50 * MIB, "largest number of bytes in one fetch response", at_least=0)
    max_partition_fetch_bytes: int = option(
        4 * MIB, "largest number of bytes of one partition in a fetch response", at_least=0
    )
    prefetch_max_bytes: int = option(
        64 * MIB,
        "largest number of bytes that are fetched and not yet read, over all partitions; fetching pauses "
        "at this limit (only in pyklient)",
        at_least=1,
        at_most=2**62,
    )
    queued_max_message_chunks: int | None = option(
        None,
        "largest number of chunks in the queue of each stream; fetching for a stream pauses when it has that "
        "many. As in Kafka's old consumer, a chunk is the data of one partition in one fetch response. By "
        "default, only prefetch_max_bytes is a limit",
        at_least=1,
    )
    check_crcs: bool = option(True, "verify the checksum of each fetched batch")
    shallowiterator_enable: bool = option(
        False,
        "hand out each compressed batch as one message, and decompress nothing. The value of the message is "
        "the compressed records; its offset is that of the last record; its header compression.codec names "
        "the codec (as in Kafka 0.7, for mirrors)",
    )
    max_decompressed_bytes: int = option(
        128 * MIB,
        "largest size to which a compressed batch may decompress; iteration raises an error at a larger "
        "batch (only in pyklient)",
        at_least=1,
    )
    consumer_timeout_ms: int = option(
        -1,
        "iteration raises ConsumerTimeout after this time without a message; -1 waits forever",
        at_least=-1,
    )

    def validate(self) -> None:
        """Raise ConfigurationError if two options of the consumer contradict each other."""
        super().validate()
        if self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise ConfigurationError(
                f"heartbeat_interval_ms={self.heartbeat_interval_ms} must be below "
                f"session_timeout_ms={self.session_timeout_ms}; choose at most a third of session_timeout_ms"
            )
        if self.request_timeout_ms <= self.fetch_max_wait_ms:
            raise ConfigurationError(
                f"request_timeout_ms={self.request_timeout_ms} must be above "
                f"fetch_max_wait_ms={self.fetch_max_wait_ms}; otherwise a fetch without new records would "
                "time out"
            )
        if self.shallowiterator_enable and self.isolation_level != "read_uncommitted":
            raise ConfigurationError(
                "shallowiterator_enable=True reads compressed batches as they are, also those of aborted "
                "transactions, so it needs isolation_level=read_uncommitted; remove one of the two options"
            )
        if self.group_id is not None and not self.group_id:
            raise ConfigurationError("group_id is empty; give the group a name")
        if self.group_instance_id is not None and not self.group_instance_id:
            raise ConfigurationError(
                "group_instance_id is empty; give each member a name of its own, or leave the option out"
            )
        parse_strategy(self.partition_assignment_strategy, in_zookeeper=self.coordination == "zookeeper")
        self._validate_coordination()
        self._validate_retention()

    @property
    def offset_storage(self) -> str:
        """The value of the option ``offsets_storage``. By default it is the value of ``coordination``."""
        return self.offsets_storage or self.coordination

    @property
    def dual_commit(self) -> bool:
        """The value of the option ``dual_commit_enabled``, or its default."""
        if self.dual_commit_enabled is None:
            return self.coordination == "zookeeper" and self.offset_storage == "kafka"
        return self.dual_commit_enabled

    def _validate_retention(self) -> None:
        if self.offsets_retention_ms is None:
            return
        if self.group_id is None:
            raise ConfigurationError(
                "offsets_retention_ms needs group_id; give the group a name, or remove offsets_retention_ms"
            )
        if self.offset_storage == "zookeeper" and not self.dual_commit:
            raise ConfigurationError(
                "offsets_retention_ms has no effect with offsets_storage='zookeeper', because ZooKeeper "
                "keeps offsets until somebody deletes them; remove one of the two options"
            )
        if self.group_instance_id is not None:
            raise ConfigurationError(
                "offsets_retention_ms cannot be used together with group_instance_id, because Kafka has no "
                "request with both; remove one of the two options"
            )

    def _validate_coordination(self) -> None:
        in_zookeeper = self.coordination == "zookeeper"
        if in_zookeeper and self.zookeeper is None:
            raise ConfigurationError(
                "coordination='zookeeper' needs the address of ZooKeeper: pass zookeeper='host:port/chroot'"
            )
        if in_zookeeper and self.group_instance_id is not None:
            raise ConfigurationError(
                "group_instance_id has no effect with coordination='zookeeper'; remove one of the two options"
            )
        if self.consumer_id is not None and not in_zookeeper:
            raise ConfigurationError(
                "consumer_id needs coordination='zookeeper'; remove consumer_id, or set both options"
            )
        for name in _FOR_GROUPS:
            if getattr(self, name) in ("zookeeper", True) and self.group_id is None:
                raise ConfigurationError(
                    f"{name}={getattr(self, name)!r} needs group_id; give the group a name, or remove {name}"
                )
        if in_zookeeper or self.offset_storage == "zookeeper" or self.dual_commit:
            for name in ("group_id", "consumer_id"):
                text = getattr(self, name)
                if text is not None and not _NODE_NAME.fullmatch(text):
                    raise ConfigurationError(
                        f"{name}={text!r} cannot be used with ZooKeeper, where it is part of a path; use "
                        "letters, digits, '.', '_' and '-' of ASCII, and not '.' or '..' alone"
                    )

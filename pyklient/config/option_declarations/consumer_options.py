"""The options of ConsumerConnector and of read(). Each option is declared once, here."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from pyklient.assignors.assignor import Assignor
from pyklient.assignors.assignors_by_name import BUILT_IN_ASSIGNORS, parse_strategy
from pyklient.config.offset_reset import duration_of
from pyklient.config.option_checks import MIB, option
from pyklient.config.option_declarations.common_options import ClientConfig
from pyklient.corrupt_records import CorruptHandler, CorruptRecords
from pyklient.errors import ConfigurationError
from pyklient.offset_stores.offset_store import OffsetStore

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
        "offset_store",
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


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ConsumerConfig(ClientConfig):
    """Options of ConsumerConnector and of read()."""

    client: ClassVar[str] = "ConsumerConnector or read()"
    has_records: ClassVar[bool] = True

    group_id: str | None = option(
        None,
        "The name of the consumer group, whose members share the partitions of the topics. Without a "
        "group, the connector reads all partitions and commits nothing.",
    )
    group_instance_id: str | None = option(
        None,
        "A name for this member, which stays the same when its program restarts. A quick restart then "
        "causes no rebalance (KIP-345).",
    )
    partition_assignment_strategy: str | Assignor | Sequence[str | Assignor] = option(
        "range",
        "The assignor by which the group assigns partitions to its members: "
        f"{', '.join(BUILT_IN_ASSIGNORS)}, or an object of a subclass of pyklient.Assignor. A list names "
        "several assignors in the order of preference, and the group uses one that all members have. Groups "
        "that ZooKeeper coordinates have only range and roundrobin.",
    )
    client_rack: str | None = option(
        None,
        "The rack of this client. All assignors but roundrobin prefer partitions that have a replica in "
        "this rack (KIP-881). Messages are still fetched from the leaders.",
    )
    coordination: str = option(
        "kafka",
        "With kafka, a broker coordinates the group, as Kafka does since 0.9. With zookeeper, the members "
        "coordinate themselves through ZooKeeper, as Kafka's Scala consumer does. (Only in pyklient.)",
        choices=("kafka", "zookeeper"),
    )
    offset_store: OffsetStore | None = option(
        None,
        "The database in which the program saves the positions of the group, in the transactions that store "
        "its results: a SQLiteOffsetStore, a PostgresOffsetStore or another OffsetStore. Nothing is then "
        "committed to Kafka, not even automatically. (Only in pyklient.)",
    )
    offsets_storage: str | None = option(
        None,
        "The storage to which the group commits its offsets: kafka or zookeeper. The default is kafka, or "
        "zookeeper if coordination is zookeeper.",
        choices=("kafka", "zookeeper", None),
    )
    offsets_retention_ms: int | None = option(
        None,
        "The time for which Kafka keeps an offset after the group has committed it. By default, "
        "offsets.retention.minutes of the brokers decides. This option needs Kafka 0.9 or later. (Only in "
        "pyklient.)",
        at_least=1,
    )
    offsets_commit_max_retries: int | None = option(
        None,
        "The largest number of retries of a commit to Kafka. By default, a commit is retried until its "
        "time-out is over.",
        at_least=0,
    )
    offsets_channel_backoff_ms: int | None = option(
        None,
        "The pause before a failed commit to Kafka is tried again. By default, retry_backoff_ms decides.",
        at_least=0,
    )
    offsets_channel_socket_timeout_ms: int | None = option(
        None,
        "The longest wait for the response to a commit to Kafka. By default, it is request_timeout_ms.",
        at_least=1,
    )
    dual_commit_enabled: bool | None = option(
        None,
        "With True, the member commits offsets to both Kafka and ZooKeeper, and begins at the larger of "
        "the two committed offsets. The default is True if coordination is zookeeper and offsets_storage "
        "is kafka, and False otherwise.",
    )
    rebalance_max_retries: int = option(
        4,
        "The largest number of attempts in a rebalance of a group that ZooKeeper coordinates. If all "
        "attempts of a new member fail, the connector raises an error.",
        at_least=1,
    )
    rebalance_backoff_ms: int = option(
        2_000,
        "The pause between two attempts in a rebalance of a group that ZooKeeper coordinates. All "
        "attempts together should last longer than zookeeper_session_timeout_ms, because no other member can "
        "own the partitions of a killed member before its session ends.",
        at_least=0,
    )
    consumer_id: str | None = option(
        None,
        "The last part of the member's id in a group that ZooKeeper coordinates. By default, it consists "
        "of the host's name, the time and a random number.",
    )
    exclude_internal_topics: bool = option(
        True, "With True, a filter for topics leaves out Kafka's internal topics, such as __consumer_offsets."
    )
    session_timeout_ms: int = option(
        45_000, "The group removes a member that sends no heartbeat for this time.", at_least=1
    )
    heartbeat_interval_ms: int = option(3_000, "The time between two heartbeats.", at_least=1)
    rebalance_timeout_ms: int = option(
        60_000,
        "The longest time for which a rebalance waits until all members have joined. (Only in pyklient. "
        "Kafka uses max.poll.interval.ms.)",
        at_least=1,
    )
    max_poll_interval_ms: int = option(
        300_000,
        "A member leaves the group if a message has waited for this time and the loop has not asked for it.",
        at_least=1,
    )
    auto_offset_reset: str = option(
        "latest",
        "The point at which the consumer begins to read a partition that has no committed offset: the oldest "
        "message (earliest), the end after the newest message (latest), or the first message that is not "
        "older than a duration (by_duration:PT1H means an hour, in the format of ISO 8601). With none, the "
        "consumer raises an error.",
        choices=("earliest", "latest", "none"),
        also=("by_duration:PT1H", duration_of),
    )
    enable_auto_commit: bool = option(
        True,
        "With True, the connector commits the messages that the loop has finished, every "
        "auto_commit_interval_ms and when it closes.",
    )
    auto_commit_interval_ms: int = option(5_000, "The time between two automatic commits.", at_least=1)
    isolation_level: str = option(
        "read_uncommitted",
        "With read_committed, the consumer leaves out records of aborted and open transactions.",
        choices=("read_uncommitted", "read_committed"),
    )
    open_transaction_warning_ms: int | None = option(
        60_000,
        "With read_committed, the consumer logs a warning when it has waited for this time for the end of an "
        "open transaction. The warning names the partition and the producer. With None, there is no warning. "
        "(Only in pyklient.)",
        at_least=1,
    )
    fetch_min_bytes: int = option(
        1,
        "The broker waits until a fetch response has this many bytes, but not longer than fetch_max_wait_ms.",
        at_least=0,
    )
    fetch_max_wait_ms: int = option(
        500, "The longest time for which the broker waits for fetch_min_bytes.", at_least=0
    )
    fetch_max_bytes: int = option(50 * MIB, "The largest number of bytes in one fetch response.", at_least=0)
    max_partition_fetch_bytes: int = option(
        4 * MIB, "The largest number of bytes of one partition in a fetch response.", at_least=0
    )
    prefetch_max_bytes: int = option(
        64 * MIB,
        "The largest number of bytes that the consumer has fetched and the loops have not read, over all "
        "partitions. At this limit, the consumer stops fetching. (Only in pyklient.)",
        at_least=1,
        at_most=2**62,
    )
    queued_max_message_chunks: int | None = option(
        None,
        "The consumer stops fetching for a stream when this many chunks wait to be read. A chunk here is "
        "the data of one partition in one fetch response. By default, only prefetch_max_bytes is a limit.",
        at_least=1,
    )
    check_crcs: bool = option(True, "With True, the consumer verifies the checksum of each batch.")
    shallowiterator_enable: bool = option(
        False,
        "With True, the consumer does not decompress. It hands out each compressed batch as one message, "
        "whose value is the compressed records. The offset of the message is that of the last record, and "
        "its header compression.codec names the codec. Kafka 0.7 used this to copy topics.",
    )
    max_decompressed_bytes: int = option(
        128 * MIB,
        "The largest size in bytes of a batch after it was decompressed. on_corrupt decides what happens "
        "with a larger batch. (Only in pyklient.)",
        at_least=1,
    )
    on_corrupt: str | Callable[[CorruptRecords], object] = option(
        "raise",
        "The reaction to a batch that cannot be read. With raise, the loop raises an error. With skip, "
        "the batch is logged, counted and skipped. A function is called with a CorruptRecords before the "
        "batch is skipped, and may raise an exception instead. (Only in pyklient.)",
    )
    consumer_timeout_ms: int = option(
        -1,
        "The loop over a stream raises ConsumerTimeout if it has got no message for this time. -1 means "
        "that it waits for ever.",
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
                "shallowiterator_enable=True hands out compressed batches without decompressing them, even "
                "those of aborted transactions; set isolation_level=read_uncommitted, or remove "
                "shallowiterator_enable"
            )
        if self.group_id is not None and not self.group_id:
            raise ConfigurationError("group_id is empty; give the group a name")
        if self.group_instance_id is not None and not self.group_instance_id:
            raise ConfigurationError(
                "group_instance_id is empty; give each member a name of its own, or leave the option out"
            )
        if not callable(self.on_corrupt) and self.on_corrupt not in ("raise", "skip"):
            raise ConfigurationError(
                f"on_corrupt={self.on_corrupt!r} must be 'raise', 'skip' or a function with one argument, a "
                "CorruptRecords"
            )
        parse_strategy(self.partition_assignment_strategy, in_zookeeper=self.coordination == "zookeeper")
        self._validate_coordination()
        self._validate_retention()
        _check_offset_store(self)

    @property
    def offset_storage(self) -> str:
        """The value of the option ``offsets_storage``. By default it is the value of ``coordination``."""
        return self.offsets_storage or self.coordination

    @property
    def commits_automatically(self) -> bool:
        """True if the consumer commits offsets without being asked: ``enable_auto_commit`` is True, and the
        consumer has a group and no offset store."""
        return self.enable_auto_commit and self.group_id is not None and self.offset_store is None

    @property
    def corrupt_handler(self) -> CorruptHandler | None:
        """The function to call before a batch that cannot be read is skipped. None if such a batch is not
        skipped, and the loop over the stream raises an error."""
        if callable(self.on_corrupt):
            return self.on_corrupt
        return None if self.on_corrupt == "raise" else _skip

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


def _skip(corrupt: CorruptRecords) -> None:
    """Do nothing, so that the consumer skips the batch that *corrupt* describes."""


def _check_offset_store(config: ConsumerConfig) -> None:
    """Raise ConfigurationError if the offset store in *config* cannot be used with the other options."""
    if config.offset_store is None:
        return
    if isinstance(config.offset_store, type):
        raise ConfigurationError(
            f"offset_store is the class {config.offset_store.__name__}, but must be an object: make an "
            "object of this class"
        )
    if not all(callable(getattr(config.offset_store, name, None)) for name in ("acquire", "save")):
        # The value itself may be text with a password, such as a URL.
        raise ConfigurationError(
            f"offset_store is a {type(config.offset_store).__name__}, but must be an object with the methods "
            "acquire and save, such as a SQLiteOffsetStore"
        )
    if config.group_id is None:
        raise ConfigurationError(
            "offset_store needs group_id, the name under which the positions are stored; give the group "
            "a name"
        )
    for name in ("offsets_storage", "dual_commit_enabled", "offsets_retention_ms"):
        if getattr(config, name):
            raise ConfigurationError(
                f"offset_store and {name}={getattr(config, name)!r} contradict each other, because nothing "
                f"is committed if there is an offset store; remove {name}"
            )

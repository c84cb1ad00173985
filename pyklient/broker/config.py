"""The options of a broker: their names, defaults, ranges and meanings. Each option is declared once, here.

An option that Kafka has too has the same name, with underscores, and the same default, unless a comment gives
a reason for another default.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from pyklient.config.option_checks import INT32_MAX, INT64_MAX, check_option, option
from pyklient.config.unknown_options import did_you_mean
from pyklient.config.zookeeper_address import parse_zookeeper
from pyklient.errors import ConfigurationError

__all__ = ["BrokerConfig"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerConfig:
    """The options of a broker, which do not change while it runs. Sizes are in bytes, times in
    milliseconds."""

    node_id: int = option(1, "the broker's id in its cluster", at_least=0)
    zookeeper: str | None = option(
        None,
        "address of ZooKeeper (host:port[,host:port]/chroot), in which the broker registers itself and its "
        "topics, for clients that find brokers there (Kafka's property is zookeeper.connect)",
    )
    zookeeper_session_timeout_ms: int = option(
        6_000,
        "ZooKeeper removes the broker's entry if the broker shows no sign of life for this long",
        at_least=1,
        kafka_default="18,000",
    )
    auto_create_topics: bool = option(
        True, "create a topic when a client first writes to it or asks for its metadata"
    )
    num_partitions: int = option(
        1, "number of partitions of a topic that is created automatically", at_least=1, at_most=10_000
    )
    # Without this limit, any client could fill the disk with directories.
    max_partitions: int = option(
        10_000,
        "the largest number of partitions that all topics together may have (only in pyklient)",
        at_least=1,
        at_most=1_000_000,
    )
    segment_bytes: int = option(
        1 << 30, "start a new log segment before the current one exceeds this size", at_least=14
    )
    index_interval_bytes: int = option(
        4096, "add an entry to a segment's index after this many bytes", at_least=0
    )
    index_max_bytes: int = option(
        10 << 20, "start a new log segment when the index of the current one has this size", at_least=8
    )
    message_max_bytes: int = option(1_048_588, "the largest batch that is accepted, in bytes", at_least=1)
    # Users of tests and first runs expect their data to stay.
    retention_ms: int = option(
        -1,
        "delete segments whose newest record is older than this; -1 keeps all segments",
        at_least=-1,
        at_most=INT64_MAX,
        kafka_default="seven days",
    )
    retention_bytes: int = option(
        -1,
        "delete the oldest segments while a partition is larger than this; -1 keeps all segments",
        at_least=-1,
        at_most=INT64_MAX,
    )
    retention_check_interval_ms: int = option(
        300_000, "the pause between two checks for segments to delete", at_least=1
    )
    socket_request_max_bytes: int = option(100 << 20, "the largest Produce request, in bytes", at_least=1024)
    # Only a Produce request has a reason to be large.
    control_request_max_bytes: int = option(
        1 << 20, "the largest request other than Produce, in bytes (only in pyklient)", at_least=1024
    )
    request_memory_bytes: int = option(
        512 << 20,
        "the largest sum of the sizes of all large requests that the broker handles at a time, in bytes "
        "(only in pyklient)",
        at_least=1024,
        at_most=INT64_MAX,
    )
    max_connections: int = option(
        2_000,
        "the largest number of open connections; further ones are closed at once",
        at_least=1,
        at_most=1_000_000,
        kafka_default="no limit",
    )
    connections_max_idle_ms: int = option(
        600_000, "close a connection that has not been used for this long", at_least=1
    )
    fetch_max_bytes: int = option(
        55 << 20, "the largest number of bytes of records in one fetch response", at_least=1024
    )
    max_incremental_fetch_session_cache_slots: int = option(
        1_000,
        "the largest number of fetch sessions (KIP-227); the least recently used one is evicted first",
        at_most=100_000,
        at_least=0,
    )
    # Without a delay, kafka-python assigns before it knows how many partitions its topics have, and may then
    # stop for good in the next rebalance.
    group_initial_rebalance_delay_ms: int = option(
        200,
        "the time that the first rebalance of an empty group waits for more members",
        kafka_default="3,000",
        at_least=0,
    )
    # With a longer minimum, tests of failures would have to wait as long.
    group_min_session_timeout_ms: int = option(
        100, "the shortest session_timeout_ms that a member may ask for", at_least=1, kafka_default="6,000"
    )
    group_max_session_timeout_ms: int = option(
        1_800_000, "the longest session_timeout_ms that a member may ask for", at_least=1
    )
    group_max_size: int = option(INT32_MAX, "the largest number of members of one group", at_least=1)
    offset_metadata_max_bytes: int = option(
        4096, "the longest text that may be committed with an offset, in characters", at_least=0
    )
    offsets_retention_minutes: int = option(
        10_080,
        "delete a committed offset that has not been in use for this number of minutes",
        at_least=1,
    )
    offsets_retention_check_interval_ms: int = option(
        600_000,
        "the pause between two checks for committed offsets to delete; each check also compacts "
        "`__consumer_offsets`",
        at_least=1,
    )
    offsets_topic_num_partitions: int = option(
        50,
        "number of partitions with which the topic `__consumer_offsets` is created",
        at_least=1,
        at_most=10_000,
    )
    offsets_topic_segment_bytes: int = option(
        100 << 20,
        "start a new log segment of `__consumer_offsets` before the current one exceeds this size",
        at_least=1024,
    )
    transaction_state_log_num_partitions: int = option(
        50,
        "number of partitions with which the topic `__transaction_state` is created",
        at_least=1,
        at_most=10_000,
    )
    transaction_state_log_segment_bytes: int = option(
        100 << 20,
        "start a new log segment of `__transaction_state` before the current one exceeds this size",
        at_least=1024,
    )
    transaction_max_timeout_ms: int = option(
        900_000, "the longest time-out of transactions that a producer may ask for", at_least=1
    )
    # With a longer interval, tests of time-outs would have to wait as long.
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = option(
        1_000,
        "the pause between two checks for transactions that are open for longer than their time-outs",
        at_least=1,
        kafka_default="10,000",
    )
    transactional_id_expiration_ms: int = option(
        604_800_000, "delete a transactional id that has not been used for this long", at_least=1
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = option(
        3_600_000,
        "the pause between two checks for transactional ids to delete; each check also compacts "
        "`__transaction_state`",
        at_least=1,
    )
    # In Kafka, this is the level of a feature, which an administrator changes.
    transaction_version: int = option(
        2,
        "the newest version of transactions that producers may use; KIP-890 describes version 2, which Kafka "
        "has since 4.0 (only in pyklient)",
        at_least=0,
        at_most=2,
    )
    max_producer_ids: int = option(
        10_000,
        "the largest number of producers that a partition remembers; "
        "the least recently active one is forgotten first (only in pyklient)",
        at_least=1,
    )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "BrokerConfig":
        """Return a config with *options*, and defaults for all other options. Raises ConfigurationError for
        an unknown name, or for a value that is out of range."""
        known = {item.name: item for item in fields(cls)}
        for name, value in options.items():
            if name not in known:
                raise ConfigurationError(f"unknown broker option {name!r}{did_you_mean(name, known)}")
            check_option(known[name], value)
        config = cls(**options)
        if config.zookeeper is not None:
            parse_zookeeper(config.zookeeper)
        return config

"""The options of a broker: the name, default, range and meaning of each, declared once.

The names are Kafka's with underscores if Kafka has the option. The defaults are Kafka's unless a comment
gives a reason for another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pyklient.config.unknown_options import did_you_mean
from pyklient.errors import ConfigurationError

__all__ = ["BrokerConfig"]

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1


def _option(default: Any, doc: str, *, low: int = 0, high: int = _INT32, kafka: str | None = None) -> Any:
    """Declare one option. *kafka* is Kafka's default if that is a different one."""
    return field(default=default, metadata={"doc": doc, "low": low, "high": high, "kafka": kafka})


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerConfig:
    """Options that hold for a broker's whole life. Sizes are in bytes, times in milliseconds."""

    node_id: int = _option(1, "the broker's id in its cluster")
    auto_create_topics: bool = _option(
        True, "create a topic when a client first writes to it or asks for its metadata"
    )
    num_partitions: int = _option(
        1, "partitions of a topic that is created automatically", low=1, high=10_000
    )
    # Without this limit, any client could fill the disk with directories.
    max_partitions: int = _option(
        10_000, "the most partitions that all topics together may have (ours)", low=1, high=1_000_000
    )
    segment_bytes: int = _option(
        1 << 30, "start a new log segment before the current one exceeds this size", low=14
    )
    index_interval_bytes: int = _option(4096, "add an entry to a segment's index after this many bytes")
    index_max_bytes: int = _option(
        10 << 20, "start a new log segment when the index of the current one has this size", low=8
    )
    message_max_bytes: int = _option(1_048_588, "the largest batch that is accepted", low=1)
    # Users of tests and first runs expect their data to stay.
    retention_ms: int = _option(
        -1,
        "delete segments whose newest record is older than this; -1 keeps them",
        low=-1,
        high=_INT64,
        kafka="seven days",
    )
    retention_bytes: int = _option(
        -1,
        "delete the oldest segments while a partition is larger than this; -1 keeps them",
        low=-1,
        high=_INT64,
    )
    retention_check_interval_ms: int = _option(
        300_000, "the pause between two checks for segments to delete", low=1
    )
    socket_request_max_bytes: int = _option(100 << 20, "the largest Produce request", low=1024)
    # Only a Produce request has a reason to be large.
    control_request_max_bytes: int = _option(
        1 << 20, "the largest request of any other kind (ours)", low=1024
    )
    request_memory_bytes: int = _option(
        512 << 20,
        "the memory for large requests that are being received or handled, over all connections (ours)",
        low=1024,
        high=_INT64,
    )
    max_connections: int = _option(
        2_000,
        "the most open connections; further ones are closed at once",
        low=1,
        high=1_000_000,
        kafka="no limit",
    )
    connections_max_idle_ms: int = _option(
        600_000, "close a connection that has not been used for this long", low=1
    )
    fetch_max_bytes: int = _option(55 << 20, "the most bytes of records in one fetch response", low=1024)
    max_incremental_fetch_session_cache_slots: int = _option(
        1_000, "the most fetch sessions (KIP-227); the least recently used one is evicted first", high=100_000
    )
    # Without a delay, kafka-python assigns before it knows how many partitions its topics have, and may then
    # stop for good in the next rebalance.
    group_initial_rebalance_delay_ms: int = _option(
        200, "the time that the first rebalance of an empty group waits for more members", kafka="3,000"
    )
    # With a longer minimum, tests of failures would have to wait as long.
    group_min_session_timeout_ms: int = _option(
        100, "the shortest session_timeout_ms that a member may ask for", low=1, kafka="6,000"
    )
    group_max_session_timeout_ms: int = _option(
        1_800_000, "the longest session_timeout_ms that a member may ask for", low=1
    )
    group_max_size: int = _option(_INT32, "the most members of one group", low=1)
    offset_metadata_max_bytes: int = _option(4096, "the longest text that may be committed with an offset")
    max_producer_ids: int = _option(
        10_000,
        "the most producers that a partition remembers; "
        "the least recently active one is forgotten first (ours)",
        low=1,
    )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "BrokerConfig":
        """Check *options*. Raises ConfigurationError for an unknown name or a value that is out of range."""
        known = {item.name: item for item in fields(cls)}
        for name, value in options.items():
            if name not in known:
                raise ConfigurationError(f"unknown broker option {name!r}{did_you_mean(name, known)}")
            item = known[name]
            wanted = type(item.default)
            if type(value) is not wanted:
                raise ConfigurationError(f"broker option {name} must be {wanted.__name__}, not {value!r}")
            low, high = item.metadata["low"], item.metadata["high"]
            if not low <= value <= high:
                raise ConfigurationError(
                    f"broker option {name} must be between {low} and {high}, not {value}"
                )
        return cls(**options)

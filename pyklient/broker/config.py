"""What a broker can be told at its start: name, default, range and meaning, each declared once.

Names are Kafka's with underscores where Kafka has the option; defaults are Kafka's unless it says why not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pyklient.config.unknown_options import did_you_mean
from pyklient.errors import ConfigurationError

__all__ = ["BrokerSettings"]

_INT32 = 2**31 - 1
_INT64 = 2**63 - 1


def _setting(default: Any, doc: str, *, low: int = 0, high: int = _INT32, kafka: str | None = None) -> Any:
    """One setting; *kafka* is what Kafka has as its default, where that is something else."""
    return field(default=default, metadata={"doc": doc, "low": low, "high": high, "kafka": kafka})


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerSettings:
    """Facts that hold for a broker's whole life. Sizes are bytes, times are milliseconds."""

    node_id: int = _setting(1, "the broker's number in its cluster")
    auto_create_topics: bool = _setting(True, "a topic appears when it is first written to or asked for")
    num_partitions: int = _setting(1, "of topics that appear by use", low=1, high=10_000)
    # A stranger cannot fill the disk with directories.
    max_partitions: int = _setting(10_000, "of all topics together (ours)", low=1, high=1_000_000)
    segment_bytes: int = _setting(1 << 30, "a new log segment is begun before one grows beyond this", low=14)
    index_interval_bytes: int = _setting(4096, "bytes of the log between two entries of its index")
    index_max_bytes: int = _setting(10 << 20, "a segment ends when its index has this size", low=8)
    message_max_bytes: int = _setting(1_048_588, "largest batch taken", low=1)
    # A test or a first run expects to find its data.
    retention_ms: int = _setting(
        -1, "segments older than this are deleted; -1 keeps them", low=-1, high=_INT64, kafka="seven days"
    )
    retention_bytes: int = _setting(
        -1, "old segments are deleted while a partition is larger; -1 keeps them", low=-1, high=_INT64
    )
    retention_check_interval_ms: int = _setting(300_000, "pause between two looks for those", low=1)
    socket_request_max_bytes: int = _setting(100 << 20, "largest Produce request", low=1024)
    # Nothing but Produce has reason to be large.
    control_request_max_bytes: int = _setting(1 << 20, "largest request of any other kind (ours)", low=1024)
    request_memory_bytes: int = _setting(
        512 << 20,
        "all large requests being received or handled, of all connections (ours)",
        low=1024,
        high=_INT64,
    )
    max_connections: int = _setting(
        2_000, "open at a time; more are closed at once", low=1, high=1_000_000, kafka="no limit"
    )
    connections_max_idle_ms: int = _setting(600_000, "an unused connection is closed after this", low=1)
    fetch_max_bytes: int = _setting(55 << 20, "records in one answer to a fetch", low=1024)
    max_incremental_fetch_session_cache_slots: int = _setting(
        1_000, "fetch sessions (KIP-227) kept; the one unused for longest goes first", high=100_000
    )
    # Without a wait, kafka-python assigns before it knows how many partitions its topics have, and may then
    # stop for good in the round after that.
    group_initial_rebalance_delay_ms: int = _setting(
        200, "a new group waits this long for more members", kafka="3,000"
    )
    # Tests of failure would have to wait as long.
    group_min_session_timeout_ms: int = _setting(
        100, "shortest session_timeout_ms that a member may have", low=1, kafka="6,000"
    )
    group_max_session_timeout_ms: int = _setting(1_800_000, "longest one", low=1)
    group_max_size: int = _setting(_INT32, "members in one group", low=1)
    offset_metadata_max_bytes: int = _setting(4096, "text committed beside an offset")
    max_producer_ids: int = _setting(
        10_000, "remembered in each partition; the oldest is forgotten first (ours)", low=1
    )

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> "BrokerSettings":
        """Raises ConfigurationError for an unknown name or a value out of range."""
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

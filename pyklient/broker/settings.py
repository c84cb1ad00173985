"""What a broker can be told at its start. Defaults are Kafka's unless a comment says why not."""

from dataclasses import dataclass, fields
from difflib import get_close_matches
from typing import Any

from pyklient.errors import ConfigurationError

__all__ = ["BrokerSettings"]

_INT32 = 2**31 - 1

_RANGES: dict[str, tuple[int, int]] = {
    "node_id": (0, _INT32),
    "num_partitions": (1, 10_000),
    "max_partitions": (1, 1_000_000),
    "segment_bytes": (14, _INT32),
    "index_interval_bytes": (0, _INT32),
    "index_max_bytes": (8, _INT32),
    "message_max_bytes": (1, _INT32),
    "retention_ms": (-1, 2**63 - 1),
    "retention_bytes": (-1, 2**63 - 1),
    "retention_check_interval_ms": (1, _INT32),
    "socket_request_max_bytes": (1024, _INT32),
    "control_request_max_bytes": (1024, _INT32),
    "request_memory_bytes": (1024, 2**63 - 1),
    "max_connections": (1, 1_000_000),
    "connections_max_idle_ms": (1, _INT32),
    "fetch_max_bytes": (1024, _INT32),
    "group_initial_rebalance_delay_ms": (0, _INT32),
    "group_min_session_timeout_ms": (1, _INT32),
    "group_max_session_timeout_ms": (1, _INT32),
    "group_max_size": (1, _INT32),
    "offset_metadata_max_bytes": (0, _INT32),
    "max_producer_ids": (1, _INT32),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokerSettings:
    """Facts that hold for a broker's whole life. Sizes are bytes, times are milliseconds."""

    node_id: int = 1
    auto_create_topics: bool = True
    num_partitions: int = 1
    max_partitions: int = 10_000  # in all topics together: a stranger cannot fill the disk with directories
    segment_bytes: int = 1 << 30
    index_interval_bytes: int = 4096
    index_max_bytes: int = 10 << 20
    message_max_bytes: int = 1_048_588
    retention_ms: int = -1  # Kafka deletes after seven days; a test or a first run expects to find its data
    retention_bytes: int = -1
    retention_check_interval_ms: int = 300_000
    socket_request_max_bytes: int = 100 << 20
    control_request_max_bytes: int = 1 << 20  # every request but Produce; nothing else has reason to be large
    request_memory_bytes: int = 512 << 20  # all large requests being received or handled, of all connections
    max_connections: int = 2_000
    connections_max_idle_ms: int = 600_000
    fetch_max_bytes: int = 55 << 20
    # Kafka waits three seconds for more members to show up. Without a wait, kafka-python assigns before it
    # knows how many partitions its topics have, and may then stop for good in the round after that.
    group_initial_rebalance_delay_ms: int = 200
    group_min_session_timeout_ms: int = 100  # Kafka: six seconds; tests of failure would have to wait as long
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = _INT32
    offset_metadata_max_bytes: int = 4096
    max_producer_ids: int = 10_000  # remembered in each partition, the oldest is forgotten first

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> "BrokerSettings":
        """Raises ConfigurationError for an unknown name or a value out of range."""
        names = [field.name for field in fields(cls)]
        for name, value in options.items():
            if name not in names:
                near = get_close_matches(name, names, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise ConfigurationError(f"unknown broker option {name!r}{hint}")
            wanted = bool if name == "auto_create_topics" else int
            if type(value) is not wanted:
                raise ConfigurationError(f"broker option {name} must be {wanted.__name__}, not {value!r}")
            low, high = _RANGES.get(name, (0, 1))
            if not low <= value <= high:
                raise ConfigurationError(
                    f"broker option {name} must be between {low} and {high}, not {value}"
                )
        return cls(**options)

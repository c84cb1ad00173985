"""The keyword arguments of Broker, for type checkers and editors.

Written from ``pyklient/broker/config.py`` by ``python -m tools.docs.option_types``; a test compares them.
"""

from typing import TypedDict

__all__ = ["BrokerOptions"]


class BrokerOptions(TypedDict, total=False):
    """Options of Broker. Sizes are bytes, times are milliseconds."""

    node_id: int
    """the broker's number in its cluster"""

    auto_create_topics: bool
    """a topic appears when it is first written to or asked for"""

    num_partitions: int
    """of topics that appear by use"""

    max_partitions: int
    """of all topics together (ours)"""

    segment_bytes: int
    """a new log segment is begun before one grows beyond this"""

    index_interval_bytes: int
    """bytes of the log between two entries of its index"""

    index_max_bytes: int
    """a segment ends when its index has this size"""

    message_max_bytes: int
    """largest batch taken"""

    retention_ms: int
    """segments older than this are deleted; -1 keeps them"""

    retention_bytes: int
    """old segments are deleted while a partition is larger; -1 keeps them"""

    retention_check_interval_ms: int
    """pause between two looks for those"""

    socket_request_max_bytes: int
    """largest Produce request"""

    control_request_max_bytes: int
    """largest request of any other kind (ours)"""

    request_memory_bytes: int
    """all large requests being received or handled, of all connections (ours)"""

    max_connections: int
    """open at a time; more are closed at once"""

    connections_max_idle_ms: int
    """an unused connection is closed after this"""

    fetch_max_bytes: int
    """records in one answer to a fetch"""

    max_incremental_fetch_session_cache_slots: int
    """fetch sessions (KIP-227) kept; the one unused for longest goes first"""

    group_initial_rebalance_delay_ms: int
    """a new group waits this long for more members"""

    group_min_session_timeout_ms: int
    """shortest session_timeout_ms that a member may have"""

    group_max_session_timeout_ms: int
    """longest one"""

    group_max_size: int
    """members in one group"""

    offset_metadata_max_bytes: int
    """text committed beside an offset"""

    max_producer_ids: int
    """remembered in each partition; the oldest is forgotten first (ours)"""

"""The keyword arguments of Broker, for type checkers and editors.

``python -m tools.docs.option_types`` generates this file from ``pyklient/broker/config.py``.
"""

from typing import TypedDict

__all__ = ["BrokerOptions"]


class BrokerOptions(TypedDict, total=False):
    """Options of Broker. Sizes are bytes, times are milliseconds."""

    node_id: int
    """the broker's id in its cluster"""

    zookeeper: str | None
    """address of ZooKeeper (host:port[,host:port]/chroot), in which the broker registers itself and its
    topics, for clients that find brokers there (Kafka's property is zookeeper.connect)"""

    zookeeper_session_timeout_ms: int
    """ZooKeeper removes the broker's entry if the broker shows no sign of life for this long"""

    auto_create_topics: bool
    """create a topic when a client first writes to it or asks for its metadata"""

    num_partitions: int
    """number of partitions of a topic that is created automatically"""

    max_partitions: int
    """the largest number of partitions that all topics together may have (only in pyklient)"""

    segment_bytes: int
    """start a new log segment before the current one exceeds this size"""

    index_interval_bytes: int
    """add an entry to a segment's index after this many bytes"""

    index_max_bytes: int
    """start a new log segment when the index of the current one has this size"""

    message_max_bytes: int
    """the largest batch that is accepted, in bytes"""

    retention_ms: int
    """delete segments whose newest record is older than this; -1 keeps all segments"""

    retention_bytes: int
    """delete the oldest segments while a partition is larger than this; -1 keeps all segments"""

    retention_check_interval_ms: int
    """the pause between two checks for segments to delete"""

    socket_request_max_bytes: int
    """the largest Produce request, in bytes"""

    control_request_max_bytes: int
    """the largest request other than Produce, in bytes (only in pyklient)"""

    request_memory_bytes: int
    """the largest sum of the sizes of all large requests that the broker handles at a time, in bytes (only in
    pyklient)"""

    max_connections: int
    """the largest number of open connections; further ones are closed at once"""

    connections_max_idle_ms: int
    """close a connection that has not been used for this long"""

    fetch_max_bytes: int
    """the largest number of bytes of records in one fetch response"""

    max_incremental_fetch_session_cache_slots: int
    """the largest number of fetch sessions (KIP-227); the least recently used one is evicted first"""

    group_initial_rebalance_delay_ms: int
    """the time that the first rebalance of an empty group waits for more members"""

    group_min_session_timeout_ms: int
    """the shortest session_timeout_ms that a member may ask for"""

    group_max_session_timeout_ms: int
    """the longest session_timeout_ms that a member may ask for"""

    group_max_size: int
    """the largest number of members of one group"""

    offset_metadata_max_bytes: int
    """the longest text that may be committed with an offset, in characters"""

    offsets_retention_minutes: int
    """delete a committed offset that has not been in use for this number of minutes"""

    offsets_retention_check_interval_ms: int
    """the pause between two checks for committed offsets to delete; each check also compacts
    `__consumer_offsets`"""

    offsets_topic_num_partitions: int
    """number of partitions with which the topic `__consumer_offsets` is created"""

    offsets_topic_segment_bytes: int
    """start a new log segment of `__consumer_offsets` before the current one exceeds this size"""

    transaction_state_log_num_partitions: int
    """number of partitions with which the topic `__transaction_state` is created"""

    transaction_state_log_segment_bytes: int
    """start a new log segment of `__transaction_state` before the current one exceeds this size"""

    transaction_max_timeout_ms: int
    """the longest time-out of transactions that a producer may ask for"""

    transaction_abort_timed_out_transaction_cleanup_interval_ms: int
    """the pause between two checks for transactions that are open for longer than their time-outs"""

    transactional_id_expiration_ms: int
    """delete a transactional id that has not been used for this long"""

    transaction_remove_expired_transaction_cleanup_interval_ms: int
    """the pause between two checks for transactional ids to delete; each check also compacts
    `__transaction_state`"""

    transaction_version: int
    """the newest version of transactions that producers may use; KIP-890 describes version 2, which Kafka has
    since 4.0 (only in pyklient)"""

    max_producer_ids: int
    """the largest number of producers that a partition remembers; the least recently active one is forgotten
    first (only in pyklient)"""

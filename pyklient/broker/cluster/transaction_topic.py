"""The internal topic ``__transaction_state``: its name, its settings, and the partition in which each
transactional id is stored."""

from typing import Final

from pyklient.broker.cluster.offsets_topic import group_partition
from pyklient.broker.config import BrokerConfig

__all__ = ["TRANSACTION_TOPIC", "transaction_partition", "transaction_topic_configs"]

TRANSACTION_TOPIC: Final = "__transaction_state"


def transaction_partition(transactional_id: str, partitions: int) -> int:
    """Return the number of the partition that stores *transactional_id*. The topic ``__transaction_state``
    has *partitions* partitions. Groups are assigned to partitions with the same hash function."""
    return group_partition(transactional_id, partitions)


def transaction_topic_configs(config: BrokerConfig) -> dict[str, str | None]:
    """Return the settings with which a broker with *config* creates ``__transaction_state``, as in Kafka."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "uncompressed",
        "segment.bytes": str(config.transaction_state_log_segment_bytes),
    }

"""The internal topic ``__consumer_offsets``: its name, its settings, and the partition in which each group is
stored."""

from typing import Final

from pyklient.broker.config import BrokerConfig
from pyklient.kernel import string_hash

__all__ = ["OFFSETS_TOPIC", "group_partition", "offsets_topic_configs"]

OFFSETS_TOPIC: Final = "__consumer_offsets"

_INT32_MIN: Final = -(2**31)


def group_partition(group_id: str, partitions: int) -> int:
    """Return the number of the partition that stores the group *group_id*. The topic ``__consumer_offsets``
    has *partitions* partitions. All brokers and clients of Kafka compute the same number.

    >>> group_partition("foobar", 50)
    13
    """
    number = string_hash(group_id)
    return (0 if number == _INT32_MIN else abs(number)) % partitions


def offsets_topic_configs(config: BrokerConfig) -> dict[str, str | None]:
    """Return the settings with which a broker with *config* creates ``__consumer_offsets``, as in Kafka."""
    return {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": str(config.offsets_topic_segment_bytes),
    }

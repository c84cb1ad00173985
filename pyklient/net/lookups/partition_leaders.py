"""Groups partitions by their leaders, so that each broker is asked once for all its partitions."""

from collections.abc import Iterable

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, broker_error
from pyklient.net.metadata import Metadata
from pyklient.topic_partition import TopicPartition

__all__ = ["by_leader"]


def by_leader(
    metadata: Metadata, partitions: Iterable[TopicPartition]
) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, BrokerError]]:
    """Group *partitions* by the node id of their leader. Also return an error for each partition without a
    leader."""
    leaders: dict[int, list[TopicPartition]] = {}
    errors: dict[TopicPartition, BrokerError] = {}
    for partition in partitions:
        node = metadata.leader(partition)
        if node is not None:
            leaders.setdefault(node.id, []).append(partition)
        else:
            errors[partition] = _no_leader(metadata, partition)
    return leaders, errors


def _no_leader(metadata: Metadata, partition: TopicPartition) -> BrokerError:
    topic = metadata.topics.get(partition.topic)
    info = topic.partitions.get(partition.partition) if topic is not None else None
    code = (topic.error if topic is not None else 0) or (info.error if info is not None else 0)
    absent = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if info is None else ErrorCode.LEADER_NOT_AVAILABLE
    return broker_error(code or absent, f"cannot find the leader of {partition}")

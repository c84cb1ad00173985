"""Looks up the partitions of topics in the metadata of the cluster."""

from collections.abc import Collection
from functools import partial

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, broker_error
from pyklient.net.dialogue import Dialogue, Refresh, retried
from pyklient.net.metadata import Metadata
from pyklient.topic_partition import TopicPartition

__all__ = ["missing_topic", "partitions_of"]


def partitions_of(topics: Collection[str], *, tries: int) -> Dialogue[list[TopicPartition]]:
    """Return the partitions of *topics*.

    Asks up to *tries* times, because some brokers learn of a new topic later than others. Raises BrokerError
    if the last response still does not have one of the topics.
    """
    return (yield from retried(partial(_partitions, topics), tries=tries))


def missing_topic(metadata: Metadata, topics: Collection[str]) -> BrokerError | None:
    """Return the error for the first of *topics* that has no partitions in *metadata*; None if all of them
    have partitions."""
    for name in topics:
        if not metadata.partition_count(name):
            info = metadata.topics.get(name)
            code = (info.error if info is not None else 0) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return broker_error(code, f"cannot read topic {name}")
    return None


def _partitions(topics: Collection[str]) -> Dialogue[list[TopicPartition]]:
    metadata: Metadata = yield Refresh(topics)
    if (missing := missing_topic(metadata, topics)) is not None:
        raise missing
    return [TopicPartition(topic, number) for topic in topics for number in metadata.topics[topic].partitions]

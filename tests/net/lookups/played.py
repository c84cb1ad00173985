"""Runs a dialogue with a list of responses, without threads, sockets and waiting."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pyklient.errors import KafkaError
from pyklient.net.dialogue import Dialogue, Pause, Step
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import MetadataResponse
from pyklient.topic_partition import TopicPartition

__all__ = ["A0", "A1", "B0", "cluster", "played"]

T = TypeVar("T")

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def played(dialogue: Dialogue[T], answers: Sequence[Any]) -> tuple[T, list[Step]]:
    """Run *dialogue* with *answers* to all its steps except the pauses. Return its result and the steps.

    An exception among the answers is a network failure.
    """
    waiting = list(answers)
    steps: list[Step] = []
    try:
        step = next(dialogue)
        while True:
            steps.append(step)
            answer = None if isinstance(step, Pause) else waiting.pop(0)
            step = dialogue.throw(answer) if isinstance(answer, KafkaError) else dialogue.send(answer)
    except StopIteration as end:
        assert not waiting, f"never asked for: {waiting}"
        return end.value, steps


def cluster(leaders: dict[TopicPartition, int], *, nodes: Sequence[int] = (1, 2), error: int = 0) -> Metadata:
    """Return the Metadata of a cluster with these leaders; -1 means none. *error* is the error code of each
    topic."""
    topics: dict[str, MetadataResponse.MetadataResponseTopic] = {}
    for partition, leader in leaders.items():
        topic = topics.setdefault(
            partition.topic, MetadataResponse.MetadataResponseTopic(name=partition.topic, error_code=error)
        )
        topic.partitions.append(
            MetadataResponse.MetadataResponsePartition(partition_index=partition.partition, leader_id=leader)
        )
    brokers = [MetadataResponse.MetadataResponseBroker(node_id=node, host="h", port=node) for node in nodes]
    return Metadata().updated(
        MetadataResponse(brokers=brokers, topics=list(topics.values())), all_topics=True
    )

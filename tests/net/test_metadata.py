"""Snapshots of the cluster: complete, immutable, and never older than the last one."""

from typing import Any

import pytest

from pyklient.net.metadata import Metadata, MetadataHolder, Node
from pyklient.protocol.messages import MetadataResponse
from pyklient.topic_partition import TopicPartition

_ID, _OTHER_ID = b"i" * 16, b"o" * 16


def topic(
    name: str, leader: int = 1, epoch: int = 0, **fields: Any
) -> MetadataResponse.MetadataResponseTopic:
    partition = MetadataResponse.MetadataResponsePartition(
        partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[1, 2], isr_nodes=[leader]
    )
    return MetadataResponse.MetadataResponseTopic(name=name, partitions=[partition], **fields)


def response(*topics: MetadataResponse.MetadataResponseTopic, nodes: int = 2) -> MetadataResponse:
    brokers = [
        MetadataResponse.MetadataResponseBroker(node_id=node, host=f"host{node}", port=9092)
        for node in range(1, nodes + 1)
    ]
    return MetadataResponse(brokers=brokers, topics=list(topics), controller_id=1, cluster_id="c")


def test_nothing_is_known_at_first() -> None:
    metadata = MetadataHolder().current
    assert metadata.leader(TopicPartition("t", 0)) is None
    assert metadata.partition_count("t") == 0


def test_a_snapshot_says_who_leads_what() -> None:
    metadata = Metadata().updated(
        response(topic("t", leader=2, is_internal=True, topic_id=_ID)), all_topics=True
    )
    assert metadata.leader(TopicPartition("t", 0)) == Node(2, "host2", 9092, None)
    assert metadata.leader(TopicPartition("t", 1)) is None
    assert metadata.leader(TopicPartition("u", 0)) is None
    assert metadata.partition_count("t") == 1
    info = metadata.topics["t"]
    assert (info.id, info.internal, info.error) == (_ID, True, 0)
    assert info.partitions[0].replicas == (1, 2)
    assert info.partitions[0].isr == (2,)
    assert (metadata.controller_id, metadata.cluster_id) == (1, "c")


def test_a_leader_that_is_not_among_the_nodes_is_none() -> None:
    metadata = Metadata().updated(response(topic("t", leader=-1), topic("u", leader=9)), all_topics=True)
    assert metadata.leader(TopicPartition("t", 0)) is None
    assert metadata.leader(TopicPartition("u", 0)) is None


def test_a_refresh_of_some_topics_keeps_the_others() -> None:
    holder = MetadataHolder()
    holder.update(response(topic("a"), topic("b", leader=1)), all_topics=True)
    holder.update(response(topic("b", leader=2)), all_topics=False)
    assert sorted(holder.current.topics) == ["a", "b"]
    assert holder.current.topics["b"].partitions[0].leader == 2


def test_a_refresh_of_all_topics_forgets_those_that_are_gone() -> None:
    holder = MetadataHolder()
    holder.update(response(topic("a"), topic("b")), all_topics=True)
    holder.update(response(topic("b")), all_topics=True)
    assert sorted(holder.current.topics) == ["b"]


def test_a_snapshot_once_taken_does_not_change() -> None:
    holder = MetadataHolder()
    before = holder.update(response(topic("a")), all_topics=True)
    holder.update(response(topic("a", leader=2), topic("b"), nodes=1), all_topics=True)
    assert sorted(before.topics) == ["a"]
    assert sorted(before.nodes) == [1, 2]
    topics: Any = before.topics
    with pytest.raises(TypeError):
        topics["x"] = topics["a"]


def test_a_broker_that_lags_behind_does_not_bring_back_a_former_leader() -> None:
    now = Metadata().updated(response(topic("t", leader=2, epoch=5, topic_id=_ID)), all_topics=True)
    later = now.updated(response(topic("t", leader=1, epoch=4, topic_id=_ID)), all_topics=False)
    assert later.topics["t"].partitions[0].leader == 2
    later = later.updated(response(topic("t", leader=1, epoch=6, topic_id=_ID)), all_topics=True)
    assert later.topics["t"].partitions[0].leader == 1


def test_epochs_start_anew_with_a_topic_made_again() -> None:
    now = Metadata().updated(response(topic("t", leader=2, epoch=5, topic_id=_ID)), all_topics=True)
    again = now.updated(response(topic("t", leader=1, epoch=0, topic_id=_OTHER_ID)), all_topics=True)
    assert again.topics["t"].partitions[0].leader == 1
    without_ids = Metadata().updated(response(topic("t", leader=2, epoch=5)), all_topics=True)
    without_ids = without_ids.updated(response(topic("t", leader=1, epoch=0)), all_topics=True)
    assert without_ids.topics["t"].partitions[0].leader == 1


def test_a_writer_starts_again_if_another_has_replaced_the_snapshot_meanwhile() -> None:
    holder = MetadataHolder()
    seen: list[Metadata] = []

    def change(before: Metadata) -> Metadata:
        seen.append(before)
        if len(seen) == 1:  # as another thread might do
            holder.update(response(topic("other")), all_topics=False)
        return before.updated(response(topic("mine")), all_topics=False)

    after = holder._replace(change)
    assert set(after.topics) == {"other", "mine"}
    assert after is holder.current
    assert len(seen) == 2

"""Offset stores whose broker leaves partitions out of its responses."""

from collections.abc import Iterator

import pytest

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_storages.broker_zookeeper_offset_storage import (
    BrokerZooKeeperOffsetStorage,
)
from pyklient.consumer.commit.offset_storages.kafka_offset_storage import KafkaOffsetStorage
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import ProtocolError
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.net.scripted import ScriptedBroker

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
POSITIONS = {ZERO: OffsetAndMetadata(3), ONE: OffsetAndMetadata(5)}
COMMIT = OffsetCommitResponse.OffsetCommitResponseTopic(
    name="t", partitions=[OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=1)]
)
FETCH = OffsetFetchResponse.OffsetFetchResponseTopic(
    name="t",
    partitions=[OffsetFetchResponse.OffsetFetchResponsePartition(partition_index=1, committed_offset=5)],
)


@pytest.fixture(params=["kafka", "zookeeper"])
def store(request: pytest.FixtureRequest) -> Iterator[OffsetStorage]:
    """An offset storage whose broker answers for partition 1 only."""
    with ScriptedBroker() as broker:
        broker.on(OffsetCommitRequest, lambda request: OffsetCommitResponse(topics=[COMMIT]))
        broker.on(OffsetFetchRequest, lambda request: OffsetFetchResponse(topics=[FETCH]))
        config = ConsumerConfig(bootstrap_servers=(f"{broker.host}:{broker.port}",), group_id="g")
        client = NetworkClient(config)
        client.refresh_metadata((), 10.0)
        try:
            if request.param == "kafka":
                yield KafkaOffsetStorage(client, config, GroupCoordinatorClient("g", broker.node_id))
            else:
                yield BrokerZooKeeperOffsetStorage(client, "g")
        finally:
            client.close()


def test_a_partition_that_is_left_out_of_a_response_is_neither_committed_nor_without_an_offset(
    store: OffsetStorage,
) -> None:
    identity = MemberIdentity(1, "m")
    sent = store.commit_async(POSITIONS, identity)
    assert sent is not None
    for rejected in (store.commit(POSITIONS, identity, 10.0), sent.result(30)):
        assert [(each, type(why.error), why.outdated) for each, why in rejected.items()] == [
            (ZERO, ProtocolError, False)
        ]
    with pytest.raises(ProtocolError, match="offsets of group g: the response does not contain t-0"):
        store.fetch([ZERO, ONE], 10.0)
    assert store.fetch([ONE], 10.0) == {ONE: OffsetAndMetadata(5)}

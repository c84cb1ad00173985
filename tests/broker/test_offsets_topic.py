"""The topic ``__consumer_offsets`` as clients see it."""

import time
from typing import Any

import pytest

from pyklient import Admin
from pyklient.broker import Broker
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC, group_partition
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError
from pyklient.kernel import encode_batch
from pyklient.protocol.messages import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from pyklient.protocol.records import NewRecord
from tests.broker.wire_client import WireClient
from tests.servers.groups import committed


def commit(
    client: WireClient, group: str, offset: int, version: int, *, timestamp: int = -1, retention: int = -1
) -> None:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        committed_offset=offset, committed_metadata="note", commit_timestamp=timestamp
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="clicks", partitions=[partition])
    request = OffsetCommitRequest(group_id=group, topics=[topic], retention_time_ms=retention)
    [answer] = client.ask(request, OffsetCommitResponse, version).topics
    assert answer.partitions[0].error_code == ErrorCode.NONE


# Numbers that Kafka's own class computes: Utils.abs("foobar".hashCode) % 50, and so on.
@pytest.mark.parametrize(("group", "partition"), [("foobar", 13), ("test-consumer-group", 31), ("g1", 42)])
def test_a_group_is_stored_in_the_partition_in_which_kafka_stores_it(group: str, partition: int) -> None:
    assert group_partition(group, 50) == partition


def test_the_hash_without_an_absolute_value_counts_as_zero() -> None:
    assert group_partition("polygenelubricants", 50) == 0  # Java's hash of this text is -2³¹


def test_the_topic_is_internal_and_belongs_to_the_broker(broker: Broker, client: WireClient) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.topics(internal=True) == []
        admin.group_offsets("g")
        assert admin.topics(internal=True) == [OFFSETS_TOPIC]
        assert admin.topics() == []
        with pytest.raises(BrokerError, match="cannot be deleted"):
            admin.delete_topic(OFFSETS_TOPIC)
    batch = encode_batch([NewRecord(1, b"key", b"value")])
    assert client.produce(OFFSETS_TOPIC, 0, batch).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    more = CreatePartitionsRequest.CreatePartitionsTopic(name=OFFSETS_TOPIC, count=60)
    [grown] = client.ask(CreatePartitionsRequest(topics=[more]), CreatePartitionsResponse).results
    assert grown.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    [topic] = client.ask(MetadataRequest(topics=None), MetadataResponse).topics
    assert (topic.is_internal, len(topic.partitions)) == (True, 50)


def test_offsets_expire_as_each_version_of_the_commit_says() -> None:
    hour, now = 3_600_000, time.time_ns() // 1_000_000
    options: dict[str, Any] = {"offsets_retention_minutes": 60, "offsets_retention_check_interval_ms": 20}
    with Broker(**options) as broker, WireClient(broker) as client:
        broker.create_topic("clicks")
        commit(client, "old", 1, 1, timestamp=now - hour - 1)
        commit(client, "young", 2, 1, timestamp=now - hour + 600_000)
        commit(client, "short", 3, 2, retention=1)
        commit(client, "long", 4, 4, retention=2 * hour)
        commit(client, "plain", 5, 9)
        with Admin(broker.bootstrap_servers) as admin:
            deadline = time.monotonic() + 10
            while (left := {each.group_id for each in admin.groups()}) != {"young", "long", "plain"}:
                assert time.monotonic() < deadline, left
        assert committed(broker.bootstrap_servers, "old", "clicks") == {}
        assert committed(broker.bootstrap_servers, "plain", "clicks") == {0: 5}

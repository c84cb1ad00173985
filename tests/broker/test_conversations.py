"""Requests and answers of a running broker, in old and new versions."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pyklient.broker import Broker
from pyklient.broker.handlers import HANDLERS
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClusterRequest,
    DescribeClusterResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.records import Compression, NewRecord, encode_batch, iter_batches
from tests.broker.wire_client import WireClient

_Topic = MetadataRequest.MetadataRequestTopic


def batch(count: int = 3, magic: int = 2, codec: Compression = Compression.NONE) -> bytes:
    return encode_batch(
        [NewRecord(1000 + at, b"k%d" % at, b"v%d" % at) for at in range(count)],
        magic=magic,
        compression=codec,
    )


def topic_id(client: WireClient, name: str) -> bytes:
    response = client.ask(MetadataRequest(topics=[_Topic(name=name)]), MetadataResponse, 12)
    return response.topics[0].topic_id


def test_api_versions_lists_what_is_served_in_all_its_versions(client: WireClient) -> None:
    response = client.ask(
        ApiVersionsRequest(client_software_name="t", client_software_version="1"), ApiVersionsResponse
    )
    listed = {one.api_key: (one.min_version, one.max_version) for one in response.api_keys}
    assert listed == {request.api_key: request.versions for request in HANDLERS}
    assert all(versions[0] == 0 for versions in listed.values())
    assert not {24, 25, 26, 28} & set(listed)


def test_an_unknown_version_of_api_versions_is_answered_with_a_body_of_version_0(client: WireClient) -> None:
    client.socket.sendall(bytes.fromhex("0000000e" + "0012" + "0063" + "00000007" + "0004") + b"name")
    frame = client.frame()
    assert frame[:6].hex() == "00000007" + "0023"
    response = ApiVersionsResponse.decode(frame[4:], 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert len(response.api_keys) == len(HANDLERS)
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


@pytest.mark.parametrize("version", range(14))
def test_metadata_names_the_broker_and_its_topics_in_every_version(
    broker: Broker, client: WireClient, version: int
) -> None:
    broker.create_topic("clicks", 3)
    everything = client.ask(MetadataRequest(topics=None if version else []), MetadataResponse, version)
    [node] = everything.brokers
    assert f"{node.host}:{node.port}" == broker.bootstrap_servers
    [topic] = everything.topics
    assert (topic.name, len(topic.partitions)) == ("clicks", 3)
    assert {partition.leader_id for partition in topic.partitions} == {node.node_id}


def test_a_topic_that_is_asked_for_is_made_where_both_sides_allow_it() -> None:
    ask = MetadataRequest(topics=[_Topic(name="new")])
    with Broker(num_partitions=4) as broker, WireClient(broker) as client:
        refused = client.ask(
            MetadataRequest(topics=[_Topic(name="new")], allow_auto_topic_creation=False), MetadataResponse
        )
        assert refused.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(client.ask(ask, MetadataResponse).topics[0].partitions) == 4
        bad = client.ask(MetadataRequest(topics=[_Topic(name="no/slash")]), MetadataResponse)
        assert bad.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with Broker(auto_create_topics=False) as broker, WireClient(broker) as client:
        refused = client.ask(ask, MetadataResponse)
        assert refused.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_metadata_by_topic_id(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    identity = topic_id(client, "clicks")
    asked = [_Topic(name=None, topic_id=identity), _Topic(name=None, topic_id=b"x" * 16)]
    found, missing = client.ask(MetadataRequest(topics=asked), MetadataResponse, 12).topics
    assert (found.name, found.error_code) == ("clicks", 0)
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", range(13))
def test_records_are_taken_in_every_version_of_produce(
    broker: Broker, client: WireClient, version: int
) -> None:
    broker.create_topic("clicks")
    data = batch(3, magic=2 if version >= 3 else min(version, 1))
    for base in (0, 3):
        answer = client.produce("clicks", 0, data, version=version)
        assert (answer.error_code, answer.base_offset) == (0, base)


def test_produce_by_topic_id(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    data = ProduceRequest.PartitionProduceData(index=0, records=batch())
    topics = [
        ProduceRequest.TopicProduceData(topic_id=identity, partition_data=[data])
        for identity in (topic_id(client, "clicks"), b"x" * 16)
    ]
    response = client.ask(ProduceRequest(acks=1, topic_data=topics), ProduceResponse, 13)
    codes = [topic.partition_responses[0].error_code for topic in response.responses]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]


def test_what_produce_refuses_it_names(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks", config={"max.message.bytes": "100"})
    assert client.produce("nowhere", 0, batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce("clicks", 1, batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce("clicks", 0, batch(1), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    too_large = client.produce("clicks", 0, batch(10))
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "100 are allowed" in (too_large.error_message or "")


def test_acks_0_gets_no_answer_and_a_failure_closes_the_connection(
    broker: Broker, client: WireClient
) -> None:
    broker.create_topic("clicks")

    def produce(index: int) -> None:
        data = ProduceRequest.PartitionProduceData(index=index, records=batch())
        topics = [ProduceRequest.TopicProduceData(name="clicks", partition_data=[data])]
        client.send(ProduceRequest(acks=0, topic_data=topics), 9, expects_reply=False)

    produce(0)
    assert client.offset_at("clicks", 0, -1) == (3, -1)
    produce(7)
    assert client.closed()


def test_a_repeated_batch_of_an_idempotent_producer_is_stored_once(
    broker: Broker, client: WireClient
) -> None:
    broker.create_topic("clicks")
    given = client.ask(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), InitProducerIdResponse
    )
    other = client.ask(
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), InitProducerIdResponse
    )
    assert given.producer_id != other.producer_id

    def sequenced(sequence: int, epoch: int = 0) -> bytes:
        return encode_batch(
            [NewRecord(1000, None, b"v")],
            producer_id=given.producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    assert client.produce("clicks", 0, sequenced(0)).base_offset == 0
    assert client.produce("clicks", 0, sequenced(1)).base_offset == 1
    assert client.produce("clicks", 0, sequenced(0)).base_offset == 0
    assert client.produce("clicks", 0, sequenced(5)).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert client.produce("clicks", 0, sequenced(0, epoch=1)).base_offset == 2
    assert client.produce("clicks", 0, sequenced(2)).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert client.offset_at("clicks", 0, -1)[0] == 3


def test_transactions_are_refused_and_not_advertised(client: WireClient) -> None:
    answer = client.ask(
        InitProducerIdRequest(transactional_id="t", transaction_timeout_ms=1), InitProducerIdResponse, 2
    )
    assert answer.error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    found = client.ask(FindCoordinatorRequest(coordinator_keys=["t"], key_type=1), FindCoordinatorResponse)
    assert found.coordinators[0].error_code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


@pytest.mark.parametrize("version", range(7))
def test_the_broker_coordinates_every_group(broker: Broker, client: WireClient, version: int) -> None:
    request = (
        FindCoordinatorRequest(coordinator_keys=["a", "b"])
        if version >= 4
        else FindCoordinatorRequest(key="a")
    )
    answer = client.ask(request, FindCoordinatorResponse, version)
    ports = [one.port for one in answer.coordinators] if version >= 4 else [answer.port]
    assert set(ports) == {broker.port}


def test_list_offsets_knows_the_special_times_and_the_times_between(
    broker: Broker, client: WireClient
) -> None:
    broker.create_topic("clicks")
    assert client.offset_at("clicks", 0, -3) == (-1, -1)
    client.produce("clicks", 0, batch(3))
    client.produce("clicks", 0, batch(5))
    assert client.offset_at("clicks", 0, -1) == (8, -1)
    assert client.offset_at("clicks", 0, -2) == (0, -1)
    assert client.offset_at("clicks", 0, -3) == (7, 1004)
    assert client.offset_at("clicks", 0, -4) == (0, -1)
    assert client.offset_at("clicks", 0, -5) == (-1, -1)
    assert client.offset_at("clicks", 0, 1002) == (2, 1002)
    assert client.offset_at("clicks", 0, 5000) == (-1, -1)
    assert client.offset_at("clicks", 0, 1002, version=1) == (2, 1002)


def test_list_offsets_version_0_gives_several(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks", config={"segment.bytes": "150"})
    for _ in range(4):
        client.produce("clicks", 0, batch(3))
    wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=3)
    request = ListOffsetsRequest(
        topics=[ListOffsetsRequest.ListOffsetsTopic(name="clicks", partitions=[wanted])]
    )
    answer = client.ask(request, ListOffsetsResponse, 0)
    assert answer.topics[0].partitions[0].old_style_offsets == [12, 9, 6]


def test_the_only_leader_epoch_ends_at_the_end_of_the_log(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    client.produce("clicks", 0, batch(3))
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    for epoch, expected in ((0, (0, 3)), (1, (-1, -1))):
        wanted = kind.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(topics=[kind(topic="clicks", partitions=[wanted])])
        [answer] = client.ask(request, OffsetForLeaderEpochResponse).topics[0].partitions
        assert (answer.leader_epoch, answer.end_offset) == expected


def create(
    client: WireClient, name: str = "t", *, version: int = 7, only_check: bool = False, **facts: Any
) -> tuple[int, int]:
    """(error code, partitions) of creating one topic."""
    fields: dict[str, Any] = {"num_partitions": 1, "replication_factor": 1} | facts
    topic = CreateTopicsRequest.CreatableTopic(name=name, **fields)
    answer = client.ask(
        CreateTopicsRequest(topics=[topic], validate_only=only_check), CreateTopicsResponse, version
    )
    return answer.topics[0].error_code, answer.topics[0].num_partitions


def test_creating_topics_is_checked_as_kafka_does(client: WireClient) -> None:
    assignment = CreateTopicsRequest.CreatableReplicaAssignment
    setting = CreateTopicsRequest.CreatableTopicConfig
    assert create(client, "t", num_partitions=3) == (0, 3)
    assert create(client, "t")[0] == ErrorCode.TOPIC_ALREADY_EXISTS
    assert create(client, "no way")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create(client, "..")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create(client, "x" * 250)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create(client, "a", num_partitions=0)[0] == ErrorCode.INVALID_PARTITIONS
    assert create(client, "a", num_partitions=2**31 - 1)[0] == ErrorCode.INVALID_PARTITIONS
    assert create(client, "a", replication_factor=2)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    assert create(client, "a", configs=[setting(name="nonsense", value="1")])[0] == ErrorCode.INVALID_CONFIG
    assert (
        create(client, "a", configs=[setting(name="retention.ms", value="x")])[0] == ErrorCode.INVALID_CONFIG
    )
    both = create(client, "a", assignments=[assignment(partition_index=0, broker_ids=[1])])
    assert both[0] == ErrorCode.INVALID_REQUEST
    strange = [assignment(partition_index=0, broker_ids=[9])]
    wrong = create(client, "a", num_partitions=-1, replication_factor=-1, assignments=strange)
    assert wrong[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    right = [assignment(partition_index=at, broker_ids=[1]) for at in (1, 0)]
    assert create(client, "a", num_partitions=-1, replication_factor=-1, assignments=right) == (0, 2)
    assert create(client, "b", num_partitions=-1, replication_factor=-1) == (0, 1)
    assert create(client, "c", only_check=True) == (0, 1)
    assert create(client, "c", version=0)[0] == 0
    assert create(client, "c.d")[0] == 0
    assert create(client, "c_d")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_topic_named_twice_in_one_request_is_not_made(client: WireClient) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    answer = client.ask(CreateTopicsRequest(topics=[topic, topic]), CreateTopicsResponse)
    assert {one.error_code for one in answer.topics} == {ErrorCode.INVALID_REQUEST}


def test_topics_are_deleted_by_name_and_by_id_and_start_empty_when_made_again(
    broker: Broker, client: WireClient
) -> None:
    state = DeleteTopicsRequest.DeleteTopicState
    for name in ("a", "b"):
        broker.create_topic(name)
        client.produce(name, 0, batch())
    identity = topic_id(client, "b")
    old = client.ask(DeleteTopicsRequest(topic_names=["a", "nope"]), DeleteTopicsResponse, 3)
    assert [one.error_code for one in old.responses] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    new = client.ask(
        DeleteTopicsRequest(topics=[state(topic_id=identity), state(topic_id=identity)]), DeleteTopicsResponse
    )
    assert [(one.name, one.error_code) for one in new.responses] == [
        ("b", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert not list(broker.data_dir.glob("a-0"))
    broker.create_topic("a")
    assert client.offset_at("a", 0, -1)[0] == 0
    assert topic_id(client, "b") != identity


def test_partitions_can_be_added_and_not_taken_away(broker: Broker, client: WireClient) -> None:
    broker.create_topic("t", 2)

    def grow(count: int, name: str = "t") -> int:
        topic = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        return (
            client.ask(CreatePartitionsRequest(topics=[topic]), CreatePartitionsResponse)
            .results[0]
            .error_code
        )

    assert grow(4) == 0
    assert client.produce("t", 3, batch()).error_code == 0
    assert grow(4) == grow(1) == ErrorCode.INVALID_PARTITIONS
    assert grow(1, "nope") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(5))
def test_settings_of_a_topic_and_of_the_broker_can_be_read(
    broker: Broker, client: WireClient, version: int
) -> None:
    broker.create_topic("t", config={"retention.ms": "5000"})
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [
        resource(resource_type=2, resource_name="t", configuration_keys=["retention.ms", "segment.bytes"]),
        resource(resource_type=4, resource_name="1", configuration_keys=None),
        resource(resource_type=2, resource_name="nope", configuration_keys=None),
    ]
    topic, own, missing = client.ask(
        DescribeConfigsRequest(resources=wanted), DescribeConfigsResponse, version
    ).results
    assert {config.name: config.value for config in topic.configs} == {
        "retention.ms": "5000",
        "segment.bytes": str(1 << 30),
    }
    assert {config.name: config.value for config in own.configs}["num.partitions"] == "1"
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(3))
def test_the_cluster_is_this_broker(broker: Broker, client: WireClient, version: int) -> None:
    answer = client.ask(DescribeClusterRequest(), DescribeClusterResponse, version)
    assert [one.port for one in answer.brokers] == [broker.port]
    assert answer.cluster_id == client.ask(MetadataRequest(topics=[]), MetadataResponse).cluster_id


def commit(client: WireClient, version: int, offset: int, identity: bytes, metadata: str = "note") -> int:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="t", topic_id=identity, partitions=[partition])
    answer = client.ask(OffsetCommitRequest(group_id="g", topics=[topic]), OffsetCommitResponse, version)
    return answer.topics[0].partitions[0].error_code


def fetch_committed(client: WireClient, version: int, identity: bytes) -> list[tuple[int, str | None]]:
    if version < 8:
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=[0, 5])
        old = client.ask(OffsetFetchRequest(group_id="g", topics=[topic]), OffsetFetchResponse, version)
        return [(one.committed_offset, one.metadata) for one in old.topics[0].partitions]
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [kind.OffsetFetchRequestTopics(name="t", topic_id=identity, partition_indexes=[0, 5])]
    request = OffsetFetchRequest(
        groups=[kind(group_id="g", topics=topics), kind(group_id="other", topics=None)]
    )
    mine, other = client.ask(request, OffsetFetchResponse, version).groups
    assert other.topics == []
    return [(one.committed_offset, one.metadata) for one in mine.topics[0].partitions]


@pytest.mark.parametrize("version", range(11))
def test_anyone_may_commit_for_a_group_without_members(
    broker: Broker, client: WireClient, version: int
) -> None:
    broker.create_topic("t")
    identity = topic_id(client, "t")
    assert commit(client, version, 17 + version, identity) == 0
    assert fetch_committed(client, version, identity) == [(17 + version, "note"), (-1, "")]
    assert commit(client, version, 5, identity, metadata="x" * 5000) == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_committed_positions_go_with_their_topic(broker: Broker, client: WireClient) -> None:
    broker.create_topic("t")
    commit(client, 8, 17, bytes(16))
    client.ask(DeleteTopicsRequest(topic_names=["t"]), DeleteTopicsResponse, 3)
    broker.create_topic("t")
    assert fetch_committed(client, 7, bytes(16))[0] == (-1, "")


def test_a_broker_can_be_started_again_and_remembers(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path / "data")
    with broker:
        broker.create_topic("t", 2, {"retention.ms": "77"})
        with WireClient(broker) as client:
            client.produce("t", 1, batch())
            commit(client, 8, 3, bytes(16))
            before = client.ask(MetadataRequest(topics=None), MetadataResponse)
            first = client.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
    with broker, WireClient(broker) as client:
        after = client.ask(MetadataRequest(topics=None), MetadataResponse)
        assert after.cluster_id == before.cluster_id
        assert after.topics == before.topics
        assert client.offset_at("t", 1, -1)[0] == 3
        assert fetch_committed(client, 7, bytes(16))[0] == (3, "note")
        again = client.ask(InitProducerIdRequest(transactional_id=None), InitProducerIdResponse)
        assert again.producer_id > first.producer_id


def test_one_broker_serves_many_clients_at_once(broker: Broker) -> None:
    broker.create_topic("t", 8)
    started = time.monotonic()

    def work(partition: int) -> None:
        with WireClient(broker) as client:
            for _ in range(50):
                client.produce("t", partition, batch())

    threads = [threading.Thread(target=work, args=(partition,), daemon=True) for partition in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    with WireClient(broker) as client:
        assert [client.offset_at("t", partition, -1)[0] for partition in range(8)] == [150] * 8
    assert time.monotonic() - started < 20
    assert list(iter_batches(batch()))


def test_committed_positions_go_with_their_group(broker: Broker, client: WireClient) -> None:
    broker.create_topic("t")
    commit(client, 8, 17, bytes(16))
    client.ask(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse)
    assert fetch_committed(client, 7, bytes(16))[0] == (-1, "")


def test_a_directory_that_a_crash_left_behind_does_not_come_back_to_life(
    broker: Broker, client: WireClient
) -> None:
    left = broker.data_dir / "t-0"
    left.mkdir()
    (left / f"{0:020d}.log").write_bytes(batch(5))
    broker.create_topic("t")
    assert client.offset_at("t", 0, -1)[0] == 0


def test_a_disk_that_cannot_be_written_is_an_error_of_its_own_and_others_go_on(
    broker: Broker, client: WireClient
) -> None:
    broker.create_topic("bad")
    broker.create_topic("good")
    (broker.data_dir / "bad-0").rmdir()
    (broker.data_dir / "bad-0").write_text("in the way")
    answer = client.produce("bad", 0, batch())
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce("good", 0, batch()).error_code == 0


def test_old_segments_are_deleted_while_the_broker_runs() -> None:
    with Broker(retention_check_interval_ms=20) as broker, WireClient(broker) as client:
        broker.create_topic(
            "t", config={"segment.bytes": 1000, "retention.bytes": 1000, "preallocate": False}
        )
        for _ in range(50):
            client.produce("t", 0, batch())
        end = time.monotonic() + 20
        while (start := client.offset_at("t", 0, -2)[0]) == 0:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert client.offset_at("t", 0, -1)[0] == 150 > start

"""Requests to a running broker and its responses, in old and new versions."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pyklient.broker import Broker
from pyklient.broker.handlers.apis import HANDLERS
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pyklient.protocol.records import Compression, NewRecord, iter_batches
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


@pytest.mark.parametrize(
    ("level", "version", "supported"), [(2, 4, [(0, 2)]), (2, 3, [(1, 2)]), (1, 3, [(1, 1)]), (0, 4, [])]
)
def test_the_version_of_transactions_is_a_feature_in_the_form_that_each_client_accepts(
    level: int, version: int, supported: list[tuple[int, int]]
) -> None:
    with Broker(transaction_version=level) as broker, WireClient(broker) as client:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        response = client.ask(request, ApiVersionsResponse, version)
    found = [(each.min_version, each.max_version) for each in response.supported_features]
    assert found == supported
    finalized = [(each.name, each.max_version_level) for each in response.finalized_features]
    assert finalized == [("transaction.version", level)] * len(supported)
    assert response.finalized_features_epoch == 0


def test_an_unknown_version_of_api_versions_is_answered_with_a_body_of_version_0(client: WireClient) -> None:
    client.socket.sendall(bytes.fromhex("0000000e" + "0012" + "0063" + "00000007" + "0004") + b"name")
    frame = client.frame()
    assert frame[:6].hex() == "00000007" + "0023"
    response = ApiVersionsResponse.decode(frame[4:], 0)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert len(response.api_keys) == len(HANDLERS)
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


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


def test_what_produce_refuses_it_names(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks", config={"max.message.bytes": "100"})
    assert client.produce("nowhere", 0, batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce("clicks", 1, batch()).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.produce("clicks", 0, batch(1), acks=2).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    too_large = client.produce("clicks", 0, batch(10))
    assert too_large.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes of the topic is 100" in (too_large.error_message or "")


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


def create(
    client: WireClient, name: str = "t", *, version: int = 7, only_check: bool = False, **facts: Any
) -> tuple[int, int]:
    """Create one topic. Return the error code and the number of partitions."""
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
        DeleteTopicsRequest(topics=[state(topic_id=identity), state(topic_id=b"x" * 16)]),
        DeleteTopicsResponse,
    )
    assert [(one.name, one.error_code) for one in new.responses] == [
        ("b", 0),
        (None, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert not list(broker.data_dir.glob("a-0"))
    broker.create_topic("a")
    assert client.offset_at("a", 0, -1)[0] == 0
    assert topic_id(client, "b") != identity


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
        thread.join(30)
    with WireClient(broker) as client:
        assert [client.offset_at("t", partition, -1)[0] for partition in range(8)] == [150] * 8
    assert time.monotonic() - started < 20
    assert list(iter_batches(batch()))


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

"""What requests about a group get while its coordinator is still reading it from ``__consumer_offsets``, and
from a node that does not coordinate it."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import confluent_kafka
import pytest

from pyklient import ConsumerConnector, Producer
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.broker.several_nodes import SeveralNodes
from tests.broker.wire_client import WireClient

ReadTwo: TypeAlias = Callable[[str], list[bytes | None]]

LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def commit_request(offset: int) -> OffsetCommitRequest:
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="clicks", partitions=[partition])
    return OffsetCommitRequest(group_id="g", topics=[topic])


def commit(client: WireClient, offset: int) -> int:
    [topic] = client.ask(commit_request(offset), OffsetCommitResponse, 9).topics
    return topic.partitions[0].error_code


def coordinator(cluster: SeveralNodes, group: str) -> NodeState:
    with WireClient(cluster.nodes[0].endpoint) as client:
        request = FindCoordinatorRequest(coordinator_keys=[group])
        [found] = client.ask(request, FindCoordinatorResponse).coordinators
    return cluster.nodes[found.node_id - 1]


@pytest.fixture
def loading(tmp_path: Path) -> Iterator[SeveralNodes]:
    """Three nodes that have a group g with the committed offset 3 of 5 records, and have not loaded it."""
    with SeveralNodes(tmp_path, 3) as cluster:
        with Producer(cluster.bootstrap_servers) as producer:
            for number in range(5):
                producer.send("clicks", b"%d" % number)
        with WireClient(coordinator(cluster, "g").endpoint) as client:
            assert commit(client, 3) == ErrorCode.NONE
    with SeveralNodes(tmp_path, 3, load=False) as cluster:
        yield cluster


def test_requests_about_a_group_that_is_not_loaded_yet_get_the_error_of_kafka(loading: SeveralNodes) -> None:
    with WireClient(coordinator(loading, "g").endpoint) as client:
        assert client.ask(JoinGroupRequest(group_id="g"), JoinGroupResponse, 4).error_code == LOADING
        assert client.ask(SyncGroupRequest(group_id="g"), SyncGroupResponse, 4).error_code == LOADING
        assert client.ask(LeaveGroupRequest(group_id="g"), LeaveGroupResponse, 2).error_code == LOADING
        # Kafka answers a heartbeat blindly, because the member would give up its partitions otherwise.
        assert client.ask(HeartbeatRequest(group_id="g"), HeartbeatResponse, 4).error_code == ErrorCode.NONE
        assert commit(client, 4) == LOADING
        asked = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=None)
        [group] = client.ask(OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, 9).groups
        assert group.error_code == LOADING
        one = OffsetFetchRequest(
            group_id="g",
            topics=[OffsetFetchRequest.OffsetFetchRequestTopic(name="clicks", partition_indexes=[0])],
        )
        for version in (1, 5):
            response = client.ask(one, OffsetFetchResponse, version)
            assert response.topics[0].partitions[0].error_code == LOADING
        assert response.error_code == LOADING
        [described] = client.ask(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse).groups
        assert described.error_code == LOADING
        [deleted] = client.ask(DeleteGroupsRequest(groups_names=["g"]), DeleteGroupsResponse).results
        assert deleted.error_code == LOADING
        assert client.ask(ListGroupsRequest(), ListGroupsResponse).error_code == LOADING


def with_pyklient(bootstrap_servers: str) -> list[bytes | None]:
    with ConsumerConnector(bootstrap_servers, group_id="g", consumer_timeout_ms=15_000) as connector:
        stream = iter(connector.create_message_streams({"clicks": 1})["clicks"][0])
        return [next(stream).value, next(stream).value]


def with_confluent_kafka(bootstrap_servers: str) -> list[bytes | None]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["clicks"])
    try:
        return [message.value() for message in consumer.consume(2, 15)]
    finally:
        consumer.close()


@pytest.mark.parametrize("read_two", [with_pyklient, with_confluent_kafka])
def test_a_consumer_waits_until_its_group_is_loaded_and_goes_on_where_it_was(
    loading: SeveralNodes, monkeypatch: pytest.MonkeyPatch, read_two: ReadTwo
) -> None:
    found: list[bytes | None] = []
    refused = threading.Event()
    node = coordinator(loading, "g")
    check = node.group_coordinator.check_loaded

    def checked(group_id: str) -> None:
        refused.set()
        check(group_id)

    monkeypatch.setattr(node.group_coordinator, "check_loaded", checked)
    consumer = threading.Thread(target=lambda: found.extend(read_two(loading.bootstrap_servers)), daemon=True)
    consumer.start()
    assert refused.wait(30)
    loading.load_groups()
    consumer.join(20)
    assert found == [b"3", b"4"]


def test_only_the_leader_of_its_partition_coordinates_a_group(loading: SeveralNodes) -> None:
    loading.load_groups()
    right = coordinator(loading, "g")
    # Kafka stores the group g in partition 3 of 50: the hash code of "g" is 103.
    assert right.cluster.topics.partition(OFFSETS_TOPIC, 3).leader_id == right.node_id
    for node in loading.nodes:
        with WireClient(node.endpoint) as client:
            expected = ErrorCode.NONE if node is right else ErrorCode.NOT_COORDINATOR
            assert commit(client, 5) == expected


def test_a_topic_deleted_while_a_group_is_loaded_loses_its_offsets(loading: SeveralNodes) -> None:
    node = coordinator(loading, "g")
    topic = node.cluster.topics.find("clicks")
    assert topic is not None
    loading.call(lambda: node.controller.delete_topic(topic))
    loading.call(lambda: list(node.group_coordinator.load()))
    assert loading.call(lambda: dict(node.group_coordinator.committed("g"))) == {}

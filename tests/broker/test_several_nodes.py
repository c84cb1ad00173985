"""Several nodes of one cluster on one event loop: the state that they share, and the logs that each
stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient import ConsumerConnector, Producer, read
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch
from pyklient.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
)
from pyklient.protocol.records import NewRecord
from tests.broker.handlers.test_fetch import fetch, request
from tests.broker.several_nodes import SeveralNodes
from tests.broker.wire_client import WireClient

BATCH = encode_batch([NewRecord(1000, None, b"value")])


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SeveralNodes]:
    with SeveralNodes(tmp_path / "cluster", 3) as running:
        yield running


def create_topic(cluster: SeveralNodes, name: str = "clicks", partitions: int = 6) -> None:
    """Create a topic with a request to the last node."""
    asked = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    with WireClient(cluster.nodes[-1].endpoint) as client:
        response = client.ask(CreateTopicsRequest(topics=[asked]), CreateTopicsResponse)
    assert response.topics[0].error_code == ErrorCode.NONE


def stored(cluster: SeveralNodes) -> list[list[int]]:
    """Return, for each node, the partitions of clicks that it stores."""
    return [
        [index for index in range(6) if ("clicks", index) in node.logs.by_partition] for node in cluster.nodes
    ]


def test_all_nodes_know_the_same_topics_and_leaders(cluster: SeveralNodes) -> None:
    create_topic(cluster)
    answers = []
    for node in cluster.nodes:
        with WireClient(node.endpoint) as client:
            answers.append(client.ask(MetadataRequest(topics=None), MetadataResponse))
    assert answers[0] == answers[1] == answers[2]
    assert [broker.node_id for broker in answers[0].brokers] == [1, 2, 3]
    assert [each.leader_id for each in answers[0].topics[0].partitions] == [1, 2, 3, 1, 2, 3]


def test_each_node_stores_the_partitions_that_it_leads(cluster: SeveralNodes) -> None:
    create_topic(cluster)
    assert stored(cluster) == [[0, 3], [1, 4], [2, 5]]
    with WireClient(cluster.nodes[0].endpoint) as client:
        topic = DeleteTopicsRequest.DeleteTopicState(name="clicks")
        client.ask(DeleteTopicsRequest(topics=[topic]), DeleteTopicsResponse)
    assert stored(cluster) == [[], [], []]


def test_a_partition_is_served_by_its_leader_only(cluster: SeveralNodes) -> None:
    create_topic(cluster)
    for number, node in enumerate(cluster.nodes):
        with WireClient(node.endpoint) as client:
            for index in range(3):
                expected = ErrorCode.NONE if index == number else ErrorCode.NOT_LEADER_OR_FOLLOWER
                assert client.produce("clicks", index, BATCH).error_code == expected
                [data] = fetch(client, request(partitions=(index,)))
                assert data.error_code == expected


def test_a_node_that_no_longer_leads_a_partition_does_not_serve_it(cluster: SeveralNodes) -> None:
    create_topic(cluster)

    def move_leader() -> None:
        partition = cluster.nodes[0].cluster.topics.partition("clicks", 0)
        partition.leader_id, partition.leader_epoch = 2, 1

    cluster.call(move_leader)
    with WireClient(cluster.nodes[0].endpoint) as client:
        assert client.produce("clicks", 0, BATCH).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_clients_with_an_older_leader_epoch_are_fenced(cluster: SeveralNodes) -> None:
    create_topic(cluster)
    cluster.nodes[0].cluster.topics.partition("clicks", 0).leader_epoch = 5
    with WireClient(cluster.nodes[0].endpoint) as client:
        codes = [fetch(client, request(epoch=epoch))[0].error_code for epoch in (4, 5, 6, -1)]
    assert codes == [
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.NONE,
    ]


def test_groups_are_spread_over_the_nodes_and_all_nodes_agree(cluster: SeveralNodes) -> None:
    keys = [f"group-{number}" for number in range(30)]
    found = []
    for node in cluster.nodes:
        with WireClient(node.endpoint) as client:
            response = client.ask(FindCoordinatorRequest(coordinator_keys=keys), FindCoordinatorResponse)
            found.append([each.node_id for each in response.coordinators])
    assert found[0] == found[1] == found[2]
    assert set(found[0]) == {1, 2, 3}


def test_a_producer_and_a_group_use_all_nodes(cluster: SeveralNodes) -> None:
    create_topic(cluster)
    sent = {b"%d" % number for number in range(60)}
    with Producer(cluster.bootstrap_servers) as producer:
        for value in sorted(sent):
            producer.send("clicks", value, partition=int(value) % 6)
    assert {message.value for message in read(cluster.bootstrap_servers, "clicks")} == sent
    with ConsumerConnector(
        cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest", consumer_timeout_ms=3000
    ) as connector:
        stream = connector.create_message_streams({"clicks": 1})["clicks"][0]
        assert {next(iter(stream)).value for _ in sent} == sent


def test_the_topics_and_logs_of_all_nodes_outlive_a_restart(tmp_path: Path) -> None:
    with SeveralNodes(tmp_path, 3) as cluster:
        create_topic(cluster)
        with Producer(cluster.bootstrap_servers) as producer:
            for index in range(6):
                producer.send("clicks", b"%d" % index, partition=index)
    with SeveralNodes(tmp_path, 3) as cluster:
        assert stored(cluster) == [[0, 3], [1, 4], [2, 5]]
        found = [(each.partition, each.value) for each in read(cluster.bootstrap_servers, "clicks")]
    assert sorted(found) == [(index, b"%d" % index) for index in range(6)]

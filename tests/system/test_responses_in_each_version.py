"""Requests and answers, one at a time over a plain socket: what ours answers is what Kafka answers.

Each request goes in every version that both sides know.
"""

from collections.abc import Iterator
from typing import Any, TypeVar

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch
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
from pyklient.protocol.records import NewRecord
from pyklient.protocol.schema import ApiMessage
from tests.broker.wire_client import WireClient
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.process import wait_until
from tests.servers.server import Server
from tests.system.test_wire_answers import connect, written

_M = TypeVar("_M", bound=ApiMessage)
_Topic = MetadataRequest.MetadataRequestTopic
NO_TOPIC = b"x" * 16


class Talk:
    """A connection to a broker, and which versions it knows."""

    def __init__(self, broker: Server, client: WireClient) -> None:
        self.client = client
        self.address = broker.bootstrap_servers
        listed = client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).api_keys
        self._known = {one.api_key: range(one.min_version, one.max_version + 1) for one in listed}

    def versions(self, request: type[ApiMessage]) -> list[int]:
        """The versions of *request* that both sides know."""
        first, last = request.versions
        if request is ProduceRequest and self._known[CreateTopicsRequest.api_key][0]:
            first = 3  # Kafka 4 lists older ones too, for librdkafka's sake, and takes none of them
        return [version for version in self._known[request.api_key] if first <= version <= last]

    def ask(self, request: ApiMessage, kind: type[_M], version: int | None = None) -> _M:
        """The answer to *request*, in the newest version unless told otherwise."""
        newest = self.versions(type(request))[-1]
        return self.client.ask(request, kind, newest if version is None else version)

    @property
    def node(self) -> int:
        return self.ask(MetadataRequest(topics=[]), MetadataResponse).brokers[0].node_id

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def topic_id(self, name: str) -> bytes:
        asked = MetadataRequest(topics=[_Topic(name=name)], allow_auto_topic_creation=False)
        return self.ask(asked, MetadataResponse).topics[0].topic_id


@pytest.fixture
def talk(any_broker: Server) -> Iterator[Talk]:
    with connect(any_broker) as client:
        yield Talk(any_broker, client)


@pytest.fixture
def topic(any_broker: Server, new_topic: NewTopic) -> str:
    """A topic of one partition with one record in it."""
    return written(any_broker, new_topic())


@pytest.fixture
def group(talk: Talk, new_name: NewName) -> str:
    """The name of a group whose coordinator is ready."""
    name = new_name()

    def ready() -> bool:
        request = FindCoordinatorRequest(key=name)
        return talk.ask(request, FindCoordinatorResponse, 2).error_code == 0

    wait_until(ready, 60, "a coordinator")
    return name


def batch(count: int = 3, magic: int = 2) -> bytes:
    return encode_batch([NewRecord(1000 + at, b"k%d" % at, b"v%d" % at) for at in range(count)], magic=magic)


def test_metadata_names_the_broker_and_its_topics_in_every_version(talk: Talk, new_topic: NewTopic) -> None:
    topic = new_topic(3)
    for version in talk.versions(MetadataRequest):
        everything = talk.ask(MetadataRequest(topics=None if version else []), MetadataResponse, version)
        [node] = everything.brokers
        assert f"{node.host}:{node.port}" == talk.address
        [found] = [one for one in everything.topics if one.name == topic]
        assert (found.error_code, len(found.partitions)) == (0, 3)
        assert {partition.leader_id for partition in found.partitions} == {node.node_id}
        [same] = talk.ask(MetadataRequest(topics=[_Topic(name=topic)]), MetadataResponse, version).topics
        assert (same.name, len(same.partitions)) == (topic, 3)


@pytest.mark.brokers(min="4.3")
def test_metadata_by_topic_id(talk: Talk, new_topic: NewTopic) -> None:
    topic = new_topic()
    asked = [_Topic(name=None, topic_id=identity) for identity in (talk.topic_id(topic), NO_TOPIC)]
    answers = talk.ask(MetadataRequest(topics=asked), MetadataResponse, 12).topics
    assert {(one.name, one.error_code) for one in answers} == {(topic, 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)}


def test_a_topic_that_is_not_to_be_made_is_unknown_and_a_wrong_name_invalid(
    talk: Talk, new_name: NewName
) -> None:
    for name, code in (
        (new_name(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("no/slash", ErrorCode.INVALID_TOPIC_EXCEPTION),
    ):
        asked = MetadataRequest(topics=[_Topic(name=name)], allow_auto_topic_creation=False)
        assert talk.ask(asked, MetadataResponse, 9).topics[0].error_code == code


def test_records_are_taken_in_every_version_of_produce(talk: Talk, topic: str) -> None:
    base = 1
    for version in talk.versions(ProduceRequest):
        if version < 13:
            data = batch(3, magic=2 if version >= 3 else min(version, 1))
            answer = talk.client.produce(topic, 0, data, version=version)
            assert (answer.error_code, answer.base_offset) == (0, base), version
            base += 3


@pytest.mark.brokers(min="4.3")
def test_produce_by_topic_id(talk: Talk, topic: str) -> None:
    data = ProduceRequest.PartitionProduceData(index=0, records=batch())
    topics = [
        ProduceRequest.TopicProduceData(topic_id=identity, partition_data=[data])
        for identity in (talk.topic_id(topic), NO_TOPIC)
    ]
    response = talk.ask(ProduceRequest(acks=1, topic_data=topics), ProduceResponse, 13)
    codes = {answer.topic_id: answer.partition_responses[0].error_code for answer in response.responses}
    assert codes == {talk.topic_id(topic): ErrorCode.NONE, NO_TOPIC: ErrorCode.UNKNOWN_TOPIC_ID}


def test_what_produce_refuses_it_names(talk: Talk, new_topic: NewTopic, new_name: NewName) -> None:
    topic = new_topic(max_message_bytes=100)

    def code(name: str, partition: int, count: int, acks: int = -1) -> int:
        return talk.client.produce(name, partition, batch(count), version=9, acks=acks).error_code

    wait_until(lambda: code(topic, 0, 1) == 0, 60, "the leader takes records")
    assert code(new_name(), 0, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(topic, 1, 1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code(topic, 0, 1, acks=2) == ErrorCode.INVALID_REQUIRED_ACKS
    assert code(topic, 0, 10) == ErrorCode.MESSAGE_TOO_LARGE


def test_acks_0_gets_no_answer_and_a_failure_closes_the_connection(talk: Talk, topic: str) -> None:
    def produce(index: int) -> None:
        data = ProduceRequest.PartitionProduceData(index=index, records=batch())
        topics = [ProduceRequest.TopicProduceData(name=topic, partition_data=[data])]
        talk.client.send(ProduceRequest(acks=0, topic_data=topics), 9, expects_reply=False)

    produce(0)
    assert talk.client.offset_at(topic, 0, -1, version=5) == (4, -1)
    produce(7)
    assert talk.client.closed()


def test_two_producers_have_two_ids(talk: Talk) -> None:
    for version in talk.versions(InitProducerIdRequest):
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0)
        one, two = (talk.ask(request, InitProducerIdResponse, version) for _ in range(2))
        assert (one.error_code, one.producer_epoch, two.producer_epoch) == (0, 0, 0)
        assert one.producer_id != two.producer_id


def test_the_coordinator_of_a_group_is_found_in_every_version(talk: Talk, group: str) -> None:
    for version in talk.versions(FindCoordinatorRequest):
        if version >= 4:
            request = FindCoordinatorRequest(coordinator_keys=[group, "other"])
            answers = talk.ask(request, FindCoordinatorResponse, version).coordinators
            assert [one.key for one in answers] == [group, "other"]
            assert {(one.error_code, one.port) for one in answers} == {(0, talk.port)}
        else:
            answer = talk.ask(FindCoordinatorRequest(key=group), FindCoordinatorResponse, version)
            assert (answer.error_code, answer.port) == (0, talk.port)


@pytest.mark.brokers(min="4.3")
def test_list_offsets_knows_the_special_times_and_the_times_between(talk: Talk, new_topic: NewTopic) -> None:
    topic = new_topic()
    wait_until(
        lambda: talk.client.produce(topic, 0, batch(3)).error_code == 0, 60, "the leader takes records"
    )
    talk.client.produce(topic, 0, batch(5))
    at = {time: talk.client.offset_at(topic, 0, time) for time in (-1, -2, -3, -4, -5, 1002, 5000)}
    assert at == {
        -1: (8, -1),
        -2: (0, -1),
        -3: (7, 1004),
        -4: (0, -1),
        -5: (-1, -1),
        1002: (2, 1002),
        5000: (-1, -1),
    }
    assert talk.client.offset_at(topic, 0, 1002, version=1) == (2, 1002)


@pytest.mark.brokers(min="4.3")
def test_an_empty_partition_has_no_record_with_the_largest_time(talk: Talk, new_topic: NewTopic) -> None:
    assert talk.client.offset_at(new_topic(), 0, -3) == (-1, -1)


@pytest.mark.brokers(needs=["old requests"])
def test_list_offsets_version_0_gives_where_segments_begin(talk: Talk, new_topic: NewTopic) -> None:
    topic = new_topic(segment_bytes=150)
    wait_until(
        lambda: talk.client.produce(topic, 0, batch(3), version=9).error_code == 0,
        30,
        "the leader takes records",
    )
    for _ in range(3):
        talk.client.produce(topic, 0, batch(3), version=9)
    wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=-1, max_num_offsets=3)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    answer = talk.ask(request, ListOffsetsResponse, 0)
    assert answer.topics[0].partitions[0].old_style_offsets == [12, 9, 6]


def test_the_only_leader_epoch_ends_at_the_end_of_the_log(talk: Talk, topic: str) -> None:
    kind = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    for version in talk.versions(OffsetForLeaderEpochRequest):
        for epoch, expected in ((0, (0, 1)), (1, (-1, -1))):
            wanted = kind.OffsetForLeaderPartition(partition=0, leader_epoch=epoch)
            request = OffsetForLeaderEpochRequest(
                replica_id=-1, topics=[kind(topic=topic, partitions=[wanted])]
            )
            [answer] = talk.ask(request, OffsetForLeaderEpochResponse, version).topics[0].partitions
            shown = answer.leader_epoch if version else expected[0]  # version 0 does not tell it
            assert (shown, answer.end_offset) == expected, version


def create(talk: Talk, name: str, *, only_check: bool = False, **facts: Any) -> tuple[int, int]:
    """(error code, partitions) of creating one topic."""
    fields: dict[str, Any] = {"num_partitions": 1, "replication_factor": 1} | facts
    topic = CreateTopicsRequest.CreatableTopic(name=name, **fields)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=20_000, validate_only=only_check)
    answer = talk.ask(request, CreateTopicsResponse)
    return answer.topics[0].error_code, answer.topics[0].num_partitions


@pytest.mark.brokers(min="4.3")
def test_creating_topics_is_checked_as_kafka_does(talk: Talk, new_name: NewName) -> None:
    assignment = CreateTopicsRequest.CreatableReplicaAssignment
    setting = CreateTopicsRequest.CreatableTopicConfig
    t, a, b, c = new_name(), new_name(), new_name(), new_name()
    assert create(talk, t, num_partitions=3) == (0, 3)
    assert create(talk, t)[0] == ErrorCode.TOPIC_ALREADY_EXISTS
    for name in ("no way", "..", "x" * 250):
        assert create(talk, name)[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert create(talk, a, num_partitions=0)[0] == ErrorCode.INVALID_PARTITIONS
    assert create(talk, a, replication_factor=2)[0] == ErrorCode.INVALID_REPLICATION_FACTOR
    for name, value in (("nonsense", "1"), ("retention.ms", "x")):
        assert create(talk, a, configs=[setting(name=name, value=value)])[0] == ErrorCode.INVALID_CONFIG
    both = create(talk, a, assignments=[assignment(partition_index=0, broker_ids=[talk.node])])
    assert both[0] == ErrorCode.INVALID_REQUEST
    unsaid: dict[str, Any] = {"num_partitions": -1, "replication_factor": -1}
    wrong = create(talk, a, assignments=[assignment(partition_index=0, broker_ids=[99])], **unsaid)
    assert wrong[0] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    right = [assignment(partition_index=at, broker_ids=[talk.node]) for at in (1, 0)]
    assert create(talk, a, assignments=right, **unsaid) == (0, 2)
    assert create(talk, b, **unsaid) == (0, 1)
    assert create(talk, c, only_check=True) == (0, 1)
    assert create(talk, c) == (0, 1)
    assert create(talk, f"{c}.d")[0] == 0
    assert create(talk, f"{c}_d")[0] == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.brokers(min="4.3")
def test_a_topic_named_twice_in_one_request_is_not_made(talk: Talk, new_name: NewName) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name=new_name(), num_partitions=1, replication_factor=1)
    answer = talk.ask(CreateTopicsRequest(topics=[topic, topic], timeout_ms=20_000), CreateTopicsResponse)
    assert [one.error_code for one in answer.topics] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.brokers(min="4.3")
def test_topics_are_deleted_by_name_and_by_id_and_start_empty_when_made_again(
    talk: Talk, any_broker: Server, new_topic: NewTopic, new_name: NewName
) -> None:
    state = DeleteTopicsRequest.DeleteTopicState
    a, b, nowhere = written(any_broker, new_topic()), new_topic(), new_name()
    identity = talk.topic_id(b)
    old = talk.ask(
        DeleteTopicsRequest(topic_names=[a, nowhere], timeout_ms=20_000), DeleteTopicsResponse, 3
    ).responses
    assert {one.name: one.error_code for one in old} == {a: 0, nowhere: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    new = talk.ask(
        DeleteTopicsRequest(topics=[state(topic_id=identity), state(topic_id=NO_TOPIC)], timeout_ms=20_000),
        DeleteTopicsResponse,
    ).responses
    assert {(one.name, one.error_code) for one in new} == {(b, 0), (None, ErrorCode.UNKNOWN_TOPIC_ID)}
    assert create(talk, a) == (0, 1)
    assert create(talk, b) == (0, 1)
    # Kafka answers before the broker's own metadata has the new topic.
    wait_until(lambda: talk.topic_id(b) not in (identity, NO_TOPIC), 60, "the new topic's id")
    wait_until(lambda: talk.client.produce(a, 0, batch(1)).base_offset == 0, 60, "an empty log")


@pytest.mark.brokers(min="4.3")
def test_a_topic_deleted_twice_in_one_request(talk: Talk, new_topic: NewTopic) -> None:
    state = DeleteTopicsRequest.DeleteTopicState
    topic = new_topic()
    twice = [state(topic_id=talk.topic_id(topic))] * 2
    answers = talk.ask(DeleteTopicsRequest(topics=twice, timeout_ms=20_000), DeleteTopicsResponse).responses
    assert [one.error_code for one in answers] == [ErrorCode.INVALID_REQUEST]
    [found] = talk.ask(MetadataRequest(topics=[_Topic(name=topic)]), MetadataResponse).topics
    assert found.error_code == 0


def test_partitions_can_be_added_and_not_taken_away(
    talk: Talk, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic(2)

    def grow(count: int, name: str = topic) -> int:
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=name, count=count, assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=20_000)
        return talk.ask(request, CreatePartitionsResponse).results[0].error_code

    assert grow(4) == 0
    wait_until(
        lambda: talk.client.produce(topic, 3, batch(), version=9).error_code == 0, 60, "the new partition"
    )
    assert grow(4) == grow(1) == ErrorCode.INVALID_PARTITIONS
    assert grow(1, new_name()) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_settings_of_a_topic_and_of_the_broker_can_be_read(
    talk: Talk, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic(retention_ms=5000)
    resource = DescribeConfigsRequest.DescribeConfigsResource
    wanted = [
        resource(resource_type=2, resource_name=topic, configuration_keys=["retention.ms", "segment.bytes"]),
        resource(resource_type=4, resource_name=str(talk.node), configuration_keys=None),
        resource(resource_type=2, resource_name=new_name(), configuration_keys=None),
    ]
    for version in talk.versions(DescribeConfigsRequest):
        answers = talk.ask(DescribeConfigsRequest(resources=wanted), DescribeConfigsResponse, version).results
        by_kind = {(one.resource_type, one.error_code): one for one in answers}
        of_topic, of_broker = by_kind[2, 0], by_kind[4, 0]
        assert {each.name: each.value for each in of_topic.configs} == {
            "retention.ms": "5000",
            "segment.bytes": str(1 << 30),
        }
        assert {each.name: each.value for each in of_broker.configs}["num.partitions"] == "1"
        assert (2, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) in by_kind


@pytest.mark.brokers(min="2.8")
def test_the_cluster_is_this_broker(talk: Talk) -> None:
    for version in talk.versions(DescribeClusterRequest):
        answer = talk.ask(DescribeClusterRequest(), DescribeClusterResponse, version)
        assert [one.port for one in answer.brokers] == [talk.port]
        assert answer.cluster_id == talk.ask(MetadataRequest(topics=[]), MetadataResponse).cluster_id


def commit(talk: Talk, group: str, topic: str, offset: int, version: int = 8, metadata: str = "note") -> int:
    identity = talk.topic_id(topic) if version >= 10 else bytes(16)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=metadata
    )
    named = OffsetCommitRequest.OffsetCommitRequestTopic(
        name=topic, topic_id=identity, partitions=[partition]
    )
    answer = talk.ask(OffsetCommitRequest(group_id=group, topics=[named]), OffsetCommitResponse, version)
    return answer.topics[0].partitions[0].error_code


def committed(talk: Talk, group: str, topic: str, version: int = 7) -> list[tuple[int, str | None]]:
    """(offset, metadata) of partition 0, and of one that has none."""
    if version < 8:
        old = OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 5])
        given = talk.ask(OffsetFetchRequest(group_id=group, topics=[old]), OffsetFetchResponse, version)
        return [(one.committed_offset, one.metadata) for one in given.topics[0].partitions]
    kind = OffsetFetchRequest.OffsetFetchRequestGroup
    identity = talk.topic_id(topic) if version >= 10 else bytes(16)
    topics = [kind.OffsetFetchRequestTopics(name=topic, topic_id=identity, partition_indexes=[0, 5])]
    request = OffsetFetchRequest(
        groups=[kind(group_id=group, topics=topics), kind(group_id="other", topics=None)]
    )
    answers = {one.group_id: one for one in talk.ask(request, OffsetFetchResponse, version).groups}
    assert answers["other"].topics == []
    return [(one.committed_offset, one.metadata) for one in answers[group].topics[0].partitions]


def test_anyone_may_commit_for_a_group_without_members(talk: Talk, group: str, topic: str) -> None:
    for version in talk.versions(OffsetCommitRequest):
        # Version 0 is of ZooKeeper's offsets, which the reference broker has not.
        fetching = talk.versions(OffsetFetchRequest)
        if version and version in fetching:
            assert commit(talk, group, topic, 17 + version, version) == 0, version
            assert committed(talk, group, topic, version) == [(17 + version, "note"), (-1, "")], version
            refused = commit(talk, group, topic, 5, version, metadata="x" * 5000)
            assert refused == ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_committed_positions_go_with_their_topic(talk: Talk, group: str, topic: str) -> None:
    assert commit(talk, group, topic, 17, 7) == 0
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=20_000)
    assert talk.ask(request, DeleteTopicsResponse, 3).responses[0].error_code == 0
    wait_until(lambda: committed(talk, group, topic)[0] == (-1, ""), 60, "no offset of a topic that is gone")


def test_committed_positions_go_with_their_group(talk: Talk, group: str, topic: str) -> None:
    assert commit(talk, group, topic, 17, 7) == 0
    answer = talk.ask(DeleteGroupsRequest(groups_names=[group]), DeleteGroupsResponse)
    assert answer.results[0].error_code == 0
    assert committed(talk, group, topic)[0] == (-1, "")

"""Admin's dialogues, played with a list of responses: controllers that move, responses that are lost."""

from collections.abc import Iterable
from types import MappingProxyType
from typing import Any

import pytest

from pyklient.admin.descriptions import PartitionLag
from pyklient.admin.groups import delete_group, describe_group, group_offsets, list_groups
from pyklient.admin.topics import create_partitions, create_topic, delete_topic, describe_topic
from pyklient.errors import BrokerConnectionError, BrokerError, ProtocolError, UnsupportedVersionError
from pyklient.net.dialogue import CONTROLLER, Ask, Dialogue, Pause, Refresh, Step
from pyklient.net.metadata import Metadata, Node, PartitionInfo, TopicInfo
from pyklient.protocol.messages import (
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeleteGroupsResponse,
    DeleteTopicsResponse,
    DescribeGroupsResponse,
    FindCoordinatorResponse,
    ListGroupsResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

_NOT_CONTROLLER, _TOPIC_EXISTS, _UNKNOWN_TOPIC = 41, 36, 3
_NOT_COORDINATOR, _NO_GROUP, _LOADING = 16, 69, 14


def _play(dialogue: Dialogue[Any], answers: Iterable[Any]) -> tuple[Any, list[Step]]:
    """Play the dialogue with *answers* to each Ask and Refresh in turn. Return the result and every step."""
    steps: list[Step] = []
    remaining = iter(answers)
    try:
        step = next(dialogue)
        while True:
            steps.append(step)
            answer = None if isinstance(step, Pause) else next(remaining)
            step = dialogue.throw(answer) if isinstance(answer, Exception) else dialogue.send(answer)
    except StopIteration as end:
        assert next(remaining, None) is None
        return end.value, steps


def _metadata(*leaders: int, topic: str = "clicks") -> Metadata:
    partitions = {number: PartitionInfo(leader) for number, leader in enumerate(leaders)}
    info = TopicInfo(topic, partitions=partitions, error=0 if leaders else _UNKNOWN_TOPIC)
    nodes = {1: Node(1, "one", 9092)}
    return Metadata(nodes=MappingProxyType(nodes), topics=MappingProxyType({topic: info}), controller_id=1)


def _created(code: int, message: str | None = None) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult(name="clicks", error_code=code, error_message=message)
    return CreateTopicsResponse(topics=[result])


def _deleted(code: int) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[DeleteTopicsResponse.DeletableTopicResult(name="clicks", error_code=code)]
    )


def test_a_creation_follows_the_controller_and_waits_for_every_leader() -> None:
    answers = [
        _created(_NOT_CONTROLLER),
        _metadata(),
        _created(0),
        _metadata(),
        _metadata(1, -1),
        _metadata(1, 1),
    ]
    _, steps = _play(create_topic("clicks", 2, 1, {}, 1000), answers)
    assert [step.to for step in steps if isinstance(step, Ask)] == [CONTROLLER, CONTROLLER]
    assert [step.topics for step in steps if isinstance(step, Refresh)] == [(), *3 * [["clicks"]]]


def test_growing_waits_until_the_new_partitions_have_leaders() -> None:
    result = CreatePartitionsResponse.CreatePartitionsTopicResult(name="clicks")
    answers = [
        CreatePartitionsResponse(results=[result]),
        _metadata(1, 1),
        _metadata(1, 1, -1),
        _metadata(1, 1, 1),
    ]
    _, steps = _play(create_partitions("clicks", 3, 1000), answers)
    assert [step.topics for step in steps if isinstance(step, Refresh)] == 3 * [["clicks"]]


def test_a_topic_made_by_a_request_whose_answer_was_lost_counts_as_created() -> None:
    lost = BrokerConnectionError("gone")
    _play(create_topic("clicks", 1, 1, {}, 1000), [lost, _metadata(), _created(_TOPIC_EXISTS), _metadata(1)])


def test_a_topic_that_somebody_else_made_is_an_error_with_the_brokers_words() -> None:
    with pytest.raises(BrokerError, match=r"create topic clicks \(broker: it is there\)"):
        _play(create_topic("clicks", 1, 1, {}, 1000), [_created(_TOPIC_EXISTS, "it is there")])


def test_a_deletion_whose_answer_was_lost_counts_when_the_topic_is_gone() -> None:
    lost = BrokerConnectionError("gone")
    _, steps = _play(
        delete_topic("clicks", 1000),
        [lost, _metadata(1), _deleted(_UNKNOWN_TOPIC), _metadata(1), _metadata()],
    )
    assert isinstance(steps[-1], Refresh)


def test_an_answer_about_nothing_is_the_brokers_fault() -> None:
    with pytest.raises(ProtocolError, match="but sent 0"):
        _play(create_topic("clicks", 1, 1, {}, 1000), [CreateTopicsResponse(topics=[])])


def _coordinator() -> list[Any]:
    return [FindCoordinatorResponse(node_id=1, host="one", port=9092), _metadata(1)]


def _described(code: int = 0, state: str = "Stable", blob: bytes = b"") -> DescribeGroupsResponse:
    member = DescribeGroupsResponse.DescribedGroupMember(member_id="m", member_assignment=blob)
    group = DescribeGroupsResponse.DescribedGroup(
        error_code=code, group_id="g", group_state=state, protocol_type="consumer", members=[member]
    )
    return DescribeGroupsResponse(groups=[group])


def test_a_group_is_asked_for_again_where_its_coordinator_has_moved_to_or_is_loading() -> None:
    answers = [
        *_coordinator(),
        _described(_NOT_COORDINATOR),
        *_coordinator(),
        _described(_LOADING),
        *_coordinator(),
        _described(),
    ]
    group, _ = _play(describe_group("g"), answers)
    assert (group.state, group.coordinator) == ("Stable", 1)


def test_every_broker_is_asked_for_the_groups_that_it_coordinates() -> None:
    nodes = MappingProxyType({number: Node(number, "host", number) for number in (3, 1, 2)})
    listed = {1: ["b"], 2: [], 3: ["c", "a"]}
    answers = [
        ListGroupsResponse(groups=[ListGroupsResponse.ListedGroup(group_id=name) for name in names])
        for names in listed.values()
    ]
    found, steps = _play(list_groups(), [Metadata(nodes=nodes), *answers])
    assert [group.group_id for group in found] == ["a", "b", "c"]
    assert [step.to for step in steps if isinstance(step, Ask)] == list(listed)


def test_a_group_that_is_ahead_of_a_log_that_was_cut_off_has_no_lag() -> None:
    assert PartitionLag(committed=9, end=4).lag == 0


def test_a_dead_group_is_one_that_is_not_there() -> None:
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        _play(describe_group("g"), [*_coordinator(), _described(state="Dead")])


def test_an_assignment_that_does_not_parse_leaves_the_rest_of_the_description() -> None:
    group, _ = _play(describe_group("g"), [*_coordinator(), _described(blob=b"\x00\x01\xff")])
    assert [(member.member_id, member.assignment) for member in group.members] == [("m", ())]


def test_a_group_deleted_by_a_request_whose_answer_was_lost_counts_as_deleted() -> None:
    gone = DeleteGroupsResponse.DeletableGroupResult(group_id="g", error_code=_NO_GROUP)
    answers = [
        *_coordinator(),
        BrokerConnectionError("gone"),
        *_coordinator(),
        DeleteGroupsResponse(results=[gone]),
    ]
    _play(delete_group("g"), answers)


def test_an_old_coordinator_is_asked_for_the_offsets_of_each_partition() -> None:
    kind = OffsetFetchResponse.OffsetFetchResponsePartition
    stored = OffsetFetchResponse(
        topics=[
            OffsetFetchResponse.OffsetFetchResponseTopic(
                name="clicks",
                partitions=[
                    kind(partition_index=0, committed_offset=5, metadata="m"),
                    kind(partition_index=1, committed_offset=-1, error_code=_UNKNOWN_TOPIC),
                ],
            )
        ]
    )
    coordinator = [FindCoordinatorResponse(node_id=1, host="one", port=9092), _metadata(1, 1)]
    unnamed = UnsupportedVersionError("topics cannot be None in version 1")
    answers = [*coordinator, unnamed, _metadata(1, 1), *coordinator, stored]
    found, steps = _play(group_offsets("readers"), answers)
    assert found == {TopicPartition("clicks", 0): OffsetAndMetadata(5, "m", -1)}
    requests = [step.request for step in steps if isinstance(step, Ask)]
    asked = [request.topics for request in requests if isinstance(request, OffsetFetchRequest)]
    assert [topics and topics[0].partition_indexes for topics in asked] == [None, [0, 1]]


def test_a_topic_of_a_broker_that_does_not_tell_its_settings_is_described_without_them() -> None:
    described, _ = _play(describe_topic("clicks"), [_metadata(1), UnsupportedVersionError("too old")])
    assert [partition.leader for partition in described.partitions] == [1]
    assert described.config == {}

"""Members of groups over the wire, in old and new versions."""

from collections.abc import Iterator

import pytest

from pyklient.broker import Broker
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
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
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.broker.wire_client import WireClient


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A broker that does not wait for more members."""
    with Broker(group_initial_rebalance_delay_ms=0) as running:
        yield running


def join(client: WireClient, version: int = 9, member_id: str = "", **facts: int) -> JoinGroupResponse:
    """Join group ``g``. From version 4 on, join twice, because the first request only gets a member id."""
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"topics")
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=facts.get("session", 10_000),
        rebalance_timeout_ms=10_000 if version else -1,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[protocol],
    )
    answer = client.ask(request, JoinGroupResponse, version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        request.member_id = answer.member_id
        answer = client.ask(request, JoinGroupResponse, version)
    return answer


def settle(client: WireClient, version: int = 5) -> str:
    """Make a stable group ``g`` of one member. Return the id of the member."""
    joined = join(client)
    assert joined.error_code == 0
    mine = SyncGroupRequest.SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"mine")
    request = SyncGroupRequest(group_id="g", generation_id=1, member_id=joined.member_id, assignments=[mine])
    synced = client.ask(request, SyncGroupResponse, version)
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    return joined.member_id


@pytest.mark.parametrize("version", range(10))
def test_a_lone_member_joins_in_every_version(client: WireClient, version: int) -> None:
    joined = join(client, version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert joined.leader == joined.member_id
    assert [member.metadata for member in joined.members] == [b"topics"]


@pytest.mark.parametrize("version", range(6))
def test_its_assignment_comes_back_in_every_version(client: WireClient, version: int) -> None:
    settle(client, version)


@pytest.mark.parametrize("version", range(5))
def test_heartbeats_are_answered_in_every_version(client: WireClient, version: int) -> None:
    member = settle(client)
    good = HeartbeatRequest(group_id="g", generation_id=1, member_id=member)
    assert client.ask(good, HeartbeatResponse, version).error_code == 0
    for request, code in (
        (HeartbeatRequest(group_id="g", generation_id=2, member_id=member), ErrorCode.ILLEGAL_GENERATION),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="who"), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest(group_id="h", generation_id=1, member_id=member), ErrorCode.UNKNOWN_MEMBER_ID),
        (HeartbeatRequest(group_id="", generation_id=1, member_id=member), ErrorCode.INVALID_GROUP_ID),
    ):
        assert client.ask(request, HeartbeatResponse, version).error_code == code


@pytest.mark.parametrize("version", range(6))
def test_a_member_leaves_in_every_version(client: WireClient, version: int) -> None:
    member = settle(client)
    if version < 3:
        answer = client.ask(LeaveGroupRequest(group_id="g", member_id=member), LeaveGroupResponse, version)
        assert answer.error_code == 0
    else:
        leaving = [LeaveGroupRequest.MemberIdentity(member_id=one) for one in (member, "who")]
        answer = client.ask(LeaveGroupRequest(group_id="g", members=leaving), LeaveGroupResponse, version)
        codes = [one.error_code for one in answer.members]
        assert (answer.error_code, codes) == (0, [0, ErrorCode.UNKNOWN_MEMBER_ID])
    [group] = client.ask(ListGroupsRequest(), ListGroupsResponse).groups
    assert group.group_state == "Empty"


@pytest.mark.parametrize("version", range(7))
def test_a_group_is_described_in_every_version(client: WireClient, version: int) -> None:
    member = settle(client)
    found, missing = client.ask(
        DescribeGroupsRequest(groups=["g", "nobody"]), DescribeGroupsResponse, version
    ).groups
    assert (found.group_state, found.protocol_type, found.protocol_data) == ("Stable", "consumer", "range")
    [described] = found.members
    assert (described.member_id, described.client_id, described.client_host) == (
        member,
        "tests",
        "/127.0.0.1",
    )
    assert (described.member_metadata, described.member_assignment) == (b"topics", b"mine")
    assert missing.group_state == "Dead"
    assert missing.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)


@pytest.mark.parametrize("version", range(6))
def test_groups_are_listed_in_every_version_and_by_state_where_there_is_one(
    client: WireClient, version: int
) -> None:
    settle(client)
    [group] = client.ask(ListGroupsRequest(), ListGroupsResponse, version).groups
    assert (group.group_id, group.protocol_type) == ("g", "consumer")
    if version >= 4:
        stable = ListGroupsRequest(states_filter=["STABLE"])
        assert len(client.ask(stable, ListGroupsResponse, version).groups) == 1
        assert (
            client.ask(ListGroupsRequest(states_filter=["Empty"]), ListGroupsResponse, version).groups == []
        )
    if version >= 5:
        assert client.ask(ListGroupsRequest(types_filter=["share"]), ListGroupsResponse, version).groups == []


@pytest.mark.parametrize("version", range(3))
def test_a_group_is_deleted_when_it_is_empty(client: WireClient, version: int) -> None:
    member = settle(client)
    request = DeleteGroupsRequest(groups_names=["g", "nobody"])
    codes = [one.error_code for one in client.ask(request, DeleteGroupsResponse, version).results]
    assert codes == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    client.ask(LeaveGroupRequest(group_id="g", member_id=member), LeaveGroupResponse, 1)
    codes = [one.error_code for one in client.ask(request, DeleteGroupsResponse, version).results]
    assert codes == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert client.ask(ListGroupsRequest(), ListGroupsResponse).groups == []


def test_a_session_time_out_must_be_within_the_brokers_bounds(client: WireClient) -> None:
    assert join(client, session=5).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert join(client, session=10_000_000).error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_only_members_of_the_current_generation_commit_while_there_are_members(
    broker: Broker, client: WireClient
) -> None:
    broker.create_topic("t")
    member = settle(client)

    def commit(member_id: str, generation: int, group: str = "g") -> int:
        topic = OffsetCommitRequest.OffsetCommitRequestTopic
        one = topic.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[topic(name="t", partitions=[one])],
        )
        return client.ask(request, OffsetCommitResponse, 7).topics[0].partitions[0].error_code

    assert commit(member, 1) == 0
    assert commit(member, 0) == ErrorCode.ILLEGAL_GENERATION
    assert commit("who", 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", -1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert commit("", 3, "new") == ErrorCode.ILLEGAL_GENERATION
    assert commit("", -1, "new") == 0
    assert commit("", -1, "") == ErrorCode.INVALID_GROUP_ID


def test_a_member_whose_heartbeats_stop_is_out_after_its_session(broker: Broker, client: WireClient) -> None:
    assert join(client, 3, session=150).error_code == 0
    with WireClient(broker) as other:
        joined = join(other, 3)
    assert [member.member_id for member in joined.members] == [joined.member_id]

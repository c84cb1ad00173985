import time
from collections.abc import Sequence, Set
from types import MappingProxyType
from typing import Any

import pytest

from pyklient.assignors.assignor import Assignor, LastAssignment, Partitions, Subscriber
from pyklient.assignors.assignors_by_name import load_assignor
from pyklient.consumer.group.classic.heartbeat_and_leave import heartbeat, leave
from pyklient.consumer.group.classic.join import join
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.states import Event, State
from pyklient.consumer.group.subscription import Subscription, TopicSelection
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.errors import BrokerConnectionError, BrokerError, KafkaError, UnsupportedVersionError
from pyklient.net.metadata import Metadata, Node, PartitionInfo, TopicInfo
from pyklient.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    FindCoordinatorResponse,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pyklient.topic_partition import TopicPartition
from tests.consumer.scripted import names, play

UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS = 25, 22, 27
NOT_COORDINATOR, LOADING, MEMBER_ID_REQUIRED, FENCED = 16, 14, 79, 82
INCONSISTENT_GROUP_PROTOCOL = 23
INVALID_SESSION_TIMEOUT = 26


def a_member(**facts: Any) -> Member:
    member = Member(
        GroupCoordinatorClient("g", 7),
        instance_id=None,
        assignors=[load_assignor("range")],
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        selection=TopicSelection(Subscription({"t": 1})),
        state=State.JOINING,
    )
    for name, value in facts.items():
        setattr(member, name, value)
    return member


def stable(**facts: Any) -> Member:
    return a_member(state=State.STABLE, member_id="m1", generation=5, **facts)


def metadata(**counts: int) -> Metadata:
    topics = {
        topic: TopicInfo(topic, partitions=MappingProxyType({n: PartitionInfo(7) for n in range(count)}))
        for topic, count in counts.items()
    }
    return Metadata(nodes={7: Node(7, "localhost", 1)}, topics=topics)


def joined(leader: str = "other", **facts: Any) -> JoinGroupResponse:
    defaults: dict[str, Any] = {"generation_id": 5, "member_id": "m1", "protocol_name": "range"}
    return JoinGroupResponse(**{**defaults, "leader": leader, **facts})


def subscriber(name: str, *topics: str, version: int = 1) -> Any:
    return JoinGroupResponse.JoinGroupResponseMember(
        member_id=name, metadata=ConsumerProtocolSubscription(topics=list(topics)).encode_blob(version)
    )


def blob(**topics: list[int]) -> bytes:
    assigned = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=partitions)
        for topic, partitions in topics.items()
    ]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).encode_blob(0)


SYNCED = SyncGroupResponse(assignment=blob(t=[0, 2]))


def test_a_follower_joins_and_takes_what_the_leader_dealt() -> None:
    member = a_member()
    partitions, asked = play(join(member, "why"), [joined(), SYNCED])
    assert partitions == [TopicPartition("t", 0), TopicPartition("t", 2)]
    assert names(asked) == ["JoinGroupRequest", "SyncGroupRequest"]
    assert (member.member_id, member.generation, member.state) == ("m1", 5, State.STABLE)
    assert member.watched is None, "only the leader watches the topics"
    first, second = asked
    assert isinstance(first, JoinGroupRequest)
    assert isinstance(second, SyncGroupRequest)
    assert (first.session_timeout_ms, first.rebalance_timeout_ms, first.reason) == (10_000, 20_000, "why")
    assert [protocol.name for protocol in first.protocols] == ["range"]
    assert (second.generation_id, second.member_id, second.assignments) == (5, "m1", [])


def test_the_leader_deals_for_everybody_and_watches_the_topics() -> None:
    member = a_member()
    members = [subscriber("m1", "t"), subscriber("m0", "t", "u")]
    answers = [joined("m1", members=members), metadata(t=3, u=1), SYNCED]
    _, asked = play(join(member, "why"), answers)
    sync = asked[1]
    assert isinstance(sync, SyncGroupRequest)
    plan = {each.member_id: each.assignment for each in sync.assignments}
    assert plan["m0"] == blob_of_version_1(t=[0, 1], u=[0])
    assert plan["m1"] == blob_of_version_1(t=[2])
    assert member.watched == {"t": 3, "u": 1}


def blob_of_version_1(**topics: list[int]) -> bytes:
    return b"\0\1" + blob(**topics)[2:]


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_the_leader_reads_subscriptions_of_every_version(version: int) -> None:
    answers = [joined("m1", members=[subscriber("m1", "t", version=version)]), metadata(t=1), SYNCED]
    _, asked = play(join(a_member(), "why"), answers)
    assert asked[1].assignments[0].assignment == blob_of_version_1(t=[0])


def test_a_member_with_an_unreadable_subscription_gets_nothing_and_stops_nobody() -> None:
    broken = JoinGroupResponse.JoinGroupResponseMember(member_id="m0", metadata=b"\0\1\xff\xff")
    answers = [joined("m1", members=[subscriber("m1", "t"), broken]), metadata(t=1), SYNCED]
    _, asked = play(join(a_member(), "why"), answers)
    plan = {each.member_id: each.assignment for each in asked[1].assignments}
    assert plan == {"m1": blob_of_version_1(t=[0]), "m0": blob_of_version_1()}


def test_a_returning_static_leader_leaves_the_assignment_alone() -> None:
    answers = [joined("m1", members=[subscriber("m1", "t")], skip_assignment=True), metadata(t=1), SYNCED]
    member = a_member()
    _, asked = play(join(member, "why"), answers)
    assert asked[1].assignments == []
    assert member.watched == {"t": 1}


def test_a_newcomer_joins_again_under_the_name_that_it_is_given() -> None:
    named = JoinGroupResponse(error_code=MEMBER_ID_REQUIRED, member_id="m9")
    _, asked = play(join(a_member(), "why"), [named, joined(), SYNCED])
    assert [each.member_id for each in asked[:2]] == ["", "m9"]


def test_a_member_that_the_group_forgot_joins_as_a_newcomer() -> None:
    member = a_member(member_id="old", generation=3)
    refused = JoinGroupResponse(error_code=UNKNOWN_MEMBER_ID)
    _, asked = play(join(member, "why"), [refused, joined(), SYNCED])
    assert [each.member_id for each in asked[:2]] == ["old", ""]


@pytest.mark.parametrize("code", [REBALANCE_IN_PROGRESS, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID])
def test_a_rebalance_in_the_middle_of_another_begins_again(code: int) -> None:
    overtaken = SyncGroupResponse(error_code=code)
    partitions, asked = play(join(a_member(), "why"), [joined(), overtaken, joined(generation_id=6), SYNCED])
    assert partitions is not None
    assert len(partitions) == 2
    assert names(asked)[2:] == ["JoinGroupRequest", "SyncGroupRequest"]
    kept = asked[2].member_id
    assert kept == ("" if code == UNKNOWN_MEMBER_ID else "m1")


def test_a_coordinator_that_is_loading_is_asked_again() -> None:
    _, asked = play(join(a_member(), "why"), [JoinGroupResponse(error_code=LOADING), joined(), SYNCED])
    assert names(asked) == ["JoinGroupRequest", "JoinGroupRequest", "SyncGroupRequest"]


def coordinator(node_id: int = 7) -> Any:
    return FindCoordinatorResponse(node_id=node_id, host="localhost", port=1)


@pytest.mark.parametrize(
    "trouble", [JoinGroupResponse(error_code=NOT_COORDINATOR), BrokerConnectionError("gone")]
)
def test_a_coordinator_that_has_moved_or_gone_is_looked_up_again(trouble: Any) -> None:
    member = a_member()
    _, asked = play(join(member, "why"), [trouble, coordinator(), metadata(), joined(), SYNCED])
    assert names(asked)[1] == "FindCoordinatorRequest"
    assert member.coordinator.node_id == 7


@pytest.mark.parametrize(
    ("code", "hint"),
    [(FENCED, "group_instance_id"), (INCONSISTENT_GROUP_PROTOCOL, "partition_assignment_strategy")],
)
def test_what_waiting_does_not_cure_is_raised_with_a_way_out(code: int, hint: str) -> None:
    with pytest.raises(BrokerError, match=hint):
        play(join(a_member(instance_id="i"), "why"), [JoinGroupResponse(error_code=code)])


def test_a_heartbeat_carries_the_generation_and_finds_nothing_changed() -> None:
    event, asked = play(heartbeat(stable()), [HeartbeatResponse()])
    assert event is None
    request: Any = asked[0]
    assert (request.member_id, request.generation_id) == ("m1", 5)


def test_a_heartbeat_tells_of_a_rebalance() -> None:
    event, _ = play(heartbeat(stable()), [HeartbeatResponse(error_code=REBALANCE_IN_PROGRESS)])
    assert event is Event.REJOIN


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION])
def test_a_heartbeat_tells_of_having_been_removed(code: int) -> None:
    member = stable()
    event, _ = play(heartbeat(member), [HeartbeatResponse(error_code=code)])
    assert event is Event.LOST
    assert (member.member_id, member.generation) == ("" if code == UNKNOWN_MEMBER_ID else "m1", -1)


@pytest.mark.parametrize(
    ("code", "confirms"),
    [(0, True), (REBALANCE_IN_PROGRESS, True), (UNKNOWN_MEMBER_ID, False), (NOT_COORDINATOR, False)],
)
def test_only_a_response_of_the_coordinator_that_knows_the_member_confirms_it(
    code: int, confirms: bool
) -> None:
    member, before = stable(), time.monotonic()
    play(heartbeat(member), [HeartbeatResponse(error_code=code)])
    assert (member.confirmed_until >= before + 10) is confirms, "the session time-out is 10 s"


def test_a_heartbeat_to_the_wrong_broker_looks_for_the_right_one_next_time() -> None:
    member = stable()
    event, _ = play(heartbeat(member), [HeartbeatResponse(error_code=NOT_COORDINATOR)])
    assert (event, member.coordinator.node_id) == (None, None)


def test_a_fenced_heartbeat_is_an_error() -> None:
    with pytest.raises(BrokerError, match="another process"):
        play(heartbeat(stable(instance_id="i")), [HeartbeatResponse(error_code=FENCED)])


def test_leaving_names_the_member_and_the_reason() -> None:
    member = stable()
    _, asked = play(leave(member, "done"), [LeaveGroupResponse()])
    request = asked[0]
    assert isinstance(request, LeaveGroupRequest)
    assert [(each.member_id, each.reason) for each in request.members] == [("m1", "done")]
    assert member.member_id == ""


def test_leaving_an_old_broker_uses_the_old_form() -> None:
    _, asked = play(leave(stable(), "done"), [UnsupportedVersionError("v2 only"), LeaveGroupResponse()])
    assert asked[1].member_id == "m1"


def test_a_static_member_does_not_leave_so_that_it_may_come_back() -> None:
    _, asked = play(leave(stable(instance_id="i"), "done"), [])
    assert asked == []


class Greedy(Assignor):
    """Assigns all partitions to the first member, with its user data."""

    name = "greedy"
    incremental = True

    def __init__(self) -> None:
        self.saw: list[Subscriber] = []

    def assign(
        self, members: Sequence[Subscriber], partitions: Partitions
    ) -> dict[str, list[TopicPartition]]:
        self.saw = list(members)
        everything = [
            TopicPartition(topic, n) for topic, racks in partitions.items() for n in range(len(racks))
        ]
        return {min(members).member_id: everything}

    def user_data(self, topics: Set[str], last: LastAssignment) -> bytes | None:
        return f"{sorted(topics)} {last.generation}".encode()


GREEDY = Greedy()


def test_all_assignors_are_offered_in_order_with_what_the_member_owns() -> None:
    owned = frozenset({TopicPartition("t", 2), TopicPartition("t", 0), TopicPartition("u", 1)})
    member = a_member(assignors=[GREEDY, load_assignor("range")], owned=owned)
    _, asked = play(join(member, "why"), [joined(), SYNCED])
    request: Any = asked[0]
    assert [protocol.name for protocol in request.protocols] == ["greedy", "range"]
    for protocol in request.protocols:
        subscription = ConsumerProtocolSubscription.decode_blob(protocol.metadata)
        told = {each.topic: each.partitions for each in subscription.owned_partitions}
        assert told == {"t": [0, 2], "u": [1]}
    assert not member.incremental, "the group may choose range"


@pytest.mark.parametrize(("chosen", "expected"), [("range", ([0], [1])), ("greedy", ([0], []))])
def test_the_leader_assigns_by_the_assignor_that_the_group_has_chosen(
    chosen: str, expected: tuple[list[int], list[int]]
) -> None:
    of = ConsumerProtocolSubscription.TopicPartition(topic="t", partitions=[1])
    owner = JoinGroupResponse.JoinGroupResponseMember(
        member_id="m2",
        metadata=ConsumerProtocolSubscription(topics=["t"], owned_partitions=[of]).encode_blob(1),
    )
    member = a_member(assignors=[GREEDY, load_assignor("range")])
    answers = [
        joined("m1", protocol_name=chosen, members=[subscriber("m1", "t"), owner]),
        metadata(t=2),
        SYNCED,
    ]
    _, asked = play(join(member, "why"), answers)
    plan = {each.member_id: each.assignment for each in asked[1].assignments}
    assert plan == {
        name: blob_of_version_1(**({"t": numbers} if numbers else {}))
        for name, numbers in zip(("m1", "m2"), expected, strict=True)
    }


@pytest.mark.parametrize("code", [UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION])
def test_a_member_that_the_group_removed_claims_nothing_any_more(code: int) -> None:
    member = a_member(assignors=[GREEDY], owned=frozenset({TopicPartition("t", 2)}), member_id="old")
    partitions, asked = play(join(member, "why"), [JoinGroupResponse(error_code=code)])
    assert partitions is None, "what it kept is lost"
    asked += play(join(member, "why"), [joined(), SYNCED])[1]
    told = [ConsumerProtocolSubscription.decode_blob(each.protocols[0].metadata) for each in asked[:2]]
    assert [len(each.owned_partitions) for each in told] == [1, 0]


def test_a_member_with_the_default_session_time_out_uses_what_old_brokers_allow(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = JoinGroupResponse(error_code=INVALID_SESSION_TIMEOUT)
    member = a_member(session_timeout_ms=45_000)
    _, asked = play(join(member, "why"), [refused, joined(), SYNCED])
    requests = [each for each in asked if isinstance(each, JoinGroupRequest)]
    assert [each.session_timeout_ms for each in requests] == [45_000, 30_000]
    assert "do not allow session_timeout_ms=45000" in caplog.text
    with pytest.raises(BrokerError, match="session_timeout_ms is outside what the broker allows"):
        play(join(a_member(session_timeout_ms=50_000), "why"), [refused])


def test_the_leader_gets_the_user_data_of_each_member_and_its_rack() -> None:
    member = a_member(assignors=[greedy := Greedy()], last=LastAssignment((), 4), rack="a", generation=4)
    subscription = ConsumerProtocolSubscription(topics=["t"], user_data=b"theirs", rack_id="b")
    other = JoinGroupResponse.JoinGroupResponseMember(member_id="m0", metadata=subscription.encode_blob())
    _, asked = play(
        join(member, "why"),
        [joined("m1", protocol_name="greedy", members=[other]), metadata(t=1), SYNCED],
    )
    sent = ConsumerProtocolSubscription.decode_blob(asked[0].protocols[0].metadata)
    assert (sent.user_data, sent.generation_id, sent.rack_id) == (b"['t'] 4", 4, "a")
    assert [(each.user_data, each.rack) for each in greedy.saw] == [(b"theirs", "b")]
    assert member.last == LastAssignment([TopicPartition("t", 0), TopicPartition("t", 2)], 5)


class Wrong(Assignor):
    """Returns what it is told, or raises it."""

    name = "wrong"

    def __init__(self, result: Any, user_data: Any = None) -> None:
        self._result = result
        self._user_data = user_data

    def assign(self, members: Sequence[Subscriber], partitions: Partitions) -> Any:
        return self._give(self._result)

    def user_data(self, topics: Set[str], last: LastAssignment) -> Any:
        return self._give(self._user_data)

    def _give(self, result: Any) -> Any:
        if isinstance(result, BaseException):
            raise result
        return result


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (KeyError("x"), r"KeyError\('x'\)"),
        (SystemExit(2), r"SystemExit\(2\)"),
        (None, r"assign\(\) returned None, not a mapping"),
        ({"m7": []}, r"are not in the group: \['m7'\]"),
        ({"m1": [TopicPartition("t", 1)]}, "partition t-1, which does not exist"),
        ({"m1": [TopicPartition("t", 0)], "m0": [TopicPartition("t", 0)]}, "to both m1 and m0"),
    ],
)
def test_an_assignor_that_fails_is_named_with_the_reason(result: Any, why: str) -> None:
    member = a_member(assignors=[Wrong(result)])
    members = [subscriber("m1", "t"), subscriber("m0", "t")]
    with pytest.raises(KafkaError, match=rf"the assignor 'wrong' could not .*{why}.*Wrong\.assign\(\)"):
        play(join(member, "why"), [joined("m1", protocol_name="wrong", members=members), metadata(t=1)])


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (KeyError("x"), r"KeyError\('x'\)"),
        (SystemExit(2), r"SystemExit\(2\)"),
        ("m", r"user_data\(\) returned str, not bytes or None"),
    ],
)
def test_an_assignor_whose_user_data_fails_is_named_with_the_reason(result: Any, why: str) -> None:
    member = a_member(assignors=[Wrong({}, user_data=result)])
    with pytest.raises(KafkaError, match=rf"the assignor 'wrong' could not .*{why}.*Wrong\.user_data\(\)"):
        play(join(member, "why"), [])


def test_an_assignor_may_return_generators() -> None:
    member = a_member(assignors=[Wrong({"m1": (TopicPartition("t", n) for n in range(2))})])
    members = [subscriber("m1", "t")]
    _, asked = play(
        join(member, "why"),
        [joined("m1", protocol_name="wrong", members=members), metadata(t=2), SYNCED],
    )
    [assigned] = ConsumerProtocolAssignment.decode_blob(
        asked[-1].assignments[0].assignment
    ).assigned_partitions
    assert (assigned.topic, assigned.partitions) == ("t", [0, 1])

"""The group state machine, with a clock of its own and no sockets."""

from dataclasses import dataclass, field

import pytest

from pyklient.broker.api_errors import ApiError
from pyklient.broker.groups.group import Group
from pyklient.broker.groups.member import JoinRequest, JoinResult, SyncRequest, SyncResult
from pyklient.broker.groups.states import TRANSITIONS, Event, GroupState
from pyklient.error_codes import ErrorCode
from tests.broker.groups.hand_clock import HandClock

RANGE = [("range", b"r"), ("roundrobin", b"rr")]


@dataclass
class Bench:
    """A group, its clock, and the results that its members received."""

    clock: HandClock = field(default_factory=HandClock)
    delay_ms: int = 0
    max_size: int = 1000
    generations: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.group = Group(
            "g",
            self.clock,
            initial_delay_ms=self.delay_ms,
            max_size=self.max_size,
            on_generation=lambda group: self.generations.append(group.generation),
        )

    def join(
        self,
        member_id: str = "",
        *,
        instance: str | None = None,
        protocols: list[tuple[str, bytes]] | None = None,
        kind: str = "consumer",
        known: bool = False,
        skip: bool = False,
    ) -> list[JoinResult]:
        answers: list[JoinResult] = []
        asked = JoinRequest(
            member_id=member_id,
            instance_id=instance,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type=kind,
            protocols=RANGE if protocols is None else protocols,
            requires_known_member_id=known,
            supports_skipping_assignment=skip,
        )
        self.group.join(asked, answers.append)
        return answers

    def sync(self, joined: JoinResult, assignments: dict[str, bytes] | None = None) -> list[SyncResult]:
        answers: list[SyncResult] = []
        request = SyncRequest(joined.member_id, None, joined.generation, None, None, assignments or {})
        self.group.sync(request, answers.append)
        return answers

    def state(self) -> GroupState:
        return self.group.state

    def two_members(self) -> tuple[JoinResult, JoinResult]:
        """Make a stable group of two members, of which the first is the leader. Return their results."""
        [first] = self.join()
        self.sync(first, {first.member_id: b"all"})
        waiting = self.join()
        [first] = self.join(first.member_id)
        [second] = waiting
        self.sync(second)
        self.sync(first, {first.member_id: b"1", second.member_id: b"2"})
        assert self.state() is GroupState.STABLE
        return first, second


def test_every_state_but_dead_can_be_left_and_only_known_events_lead_on() -> None:
    assert {state for state, _ in TRANSITIONS} == set(GroupState) - {GroupState.DEAD}
    assert (GroupState.STABLE, Event.DELETED) not in TRANSITIONS


def test_a_first_member_leads_a_generation_of_one_and_gets_its_own_assignment() -> None:
    bench = Bench()
    [joined] = bench.join()
    assert joined.error == ErrorCode.NONE
    assert joined.leader == joined.member_id
    assert joined.generation == 1
    assert joined.members == ((joined.member_id, None, b"r"),)
    assert bench.state() is GroupState.COMPLETING
    [synced] = bench.sync(joined, {joined.member_id: b"mine"})
    assert synced == SyncResult(ErrorCode.NONE, b"mine", "consumer", "range")
    assert bench.state() is GroupState.STABLE
    assert bench.generations == [1]


def test_a_second_member_waits_until_the_first_has_joined_again() -> None:
    bench = Bench()
    [first] = bench.join()
    bench.sync(first, {})
    waiting = bench.join()
    assert waiting == []
    with pytest.raises(ApiError) as told:
        bench.group.heartbeat(first.member_id, None, 1)
    assert told.value.code == ErrorCode.REBALANCE_IN_PROGRESS
    [again] = bench.join(first.member_id)
    assert [again.generation, waiting[0].generation] == [2, 2]
    assert again.leader == waiting[0].leader == first.member_id
    assert len(again.members) == 2
    assert waiting[0].members == ()


def test_followers_wait_for_the_leaders_assignment() -> None:
    bench = Bench()
    first, second = bench.two_members()
    changed = bench.join(second.member_id, protocols=[("range", b"other")])
    [first] = bench.join(first.member_id)
    follower = bench.sync(changed[0])
    assert follower == []
    [leader] = bench.sync(first, {first.member_id: b"a", second.member_id: b"b"})
    assert (leader.assignment, follower[0].assignment) == (b"a", b"b")


def test_a_follower_that_joins_again_unchanged_disturbs_nobody() -> None:
    bench = Bench()
    _, second = bench.two_members()
    [again] = bench.join(second.member_id)
    assert again.generation == second.generation
    assert bench.state() is GroupState.STABLE


def test_a_leader_that_joins_again_starts_a_new_round() -> None:
    bench = Bench()
    first, _ = bench.two_members()
    assert bench.join(first.member_id) == []
    assert bench.state() is GroupState.PREPARING


def test_a_member_without_an_id_is_told_one_first_where_the_client_knows_that() -> None:
    bench = Bench()
    [told] = bench.join(known=True)
    assert told.error == ErrorCode.MEMBER_ID_REQUIRED
    assert told.member_id.startswith("client-")
    assert bench.group.members == {}
    [joined] = bench.join(told.member_id, known=True)
    assert joined.error == ErrorCode.NONE


def test_an_id_that_was_told_is_forgotten_after_the_session_time_out() -> None:
    bench = Bench()
    [told] = bench.join(known=True)
    bench.clock.advance(10.1)
    [late] = bench.join(told.member_id, known=True)
    assert late.error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_round_waits_for_a_member_that_was_told_its_id_and_not_for_ever() -> None:
    bench = Bench()
    [first] = bench.join()
    bench.sync(first)
    [told] = bench.join(known=True)
    again = bench.join(first.member_id)
    assert again == []
    assert told.error == ErrorCode.MEMBER_ID_REQUIRED
    bench.clock.advance(10.1)
    assert again[0].generation == 2


def test_a_silent_member_is_removed_and_the_others_start_a_new_round() -> None:
    bench = Bench()
    first, second = bench.two_members()
    bench.clock.advance(9)
    bench.group.heartbeat(first.member_id, None, 2)
    bench.clock.advance(2)
    assert list(bench.group.members) == [first.member_id]
    assert bench.state() is GroupState.PREPARING
    with pytest.raises(ApiError) as told:
        bench.group.heartbeat(second.member_id, None, 2)
    assert told.value.code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_a_round_to_end_needs_no_heartbeat() -> None:
    bench = Bench()
    first, second = bench.two_members()
    waiting = bench.join(first.member_id)
    for _ in range(5):
        bench.clock.advance(9)
        with pytest.raises(ApiError, match="join again"):
            bench.group.heartbeat(second.member_id, None, 2)
    assert waiting == []
    assert first.member_id in bench.group.members


def test_a_member_that_does_not_join_again_in_time_is_out_even_if_it_sends_heartbeats() -> None:
    bench = Bench()
    first, second = bench.two_members()
    waiting = bench.join(first.member_id)
    for _ in range(7):
        with pytest.raises(ApiError):
            bench.group.heartbeat(second.member_id, None, 2)
        bench.clock.advance(9)
    assert waiting[0].generation == 3
    assert list(bench.group.members) == [first.member_id]


def test_a_member_that_joins_but_never_syncs_is_removed() -> None:
    bench = Bench()
    [first] = bench.join()
    for _ in range(8):
        if first.member_id in bench.group.members:
            bench.group.heartbeat(first.member_id, None, 1)
        bench.clock.advance(9)
    assert bench.group.members == {}
    assert bench.state() is GroupState.EMPTY


def test_the_last_member_to_leave_empties_the_group_and_no_timer_stays_behind() -> None:
    bench = Bench()
    first, second = bench.two_members()
    bench.group.leave(first.member_id, None)
    bench.group.leave(second.member_id, None)
    assert bench.state() is GroupState.EMPTY
    assert bench.group.protocol is None
    assert bench.clock.waiting == 0
    with pytest.raises(ApiError) as told:
        bench.group.leave(second.member_id, None)
    assert told.value.code == ErrorCode.UNKNOWN_MEMBER_ID


def test_when_the_leader_goes_another_leads() -> None:
    bench = Bench()
    first, second = bench.two_members()
    bench.group.leave(first.member_id, None)
    [again] = bench.join(second.member_id)
    assert again.leader == second.member_id
    assert len(again.members) == 1


def test_the_protocol_most_members_like_best_among_those_all_know_is_chosen() -> None:
    bench = Bench()
    [first] = bench.join(protocols=[("sticky", b""), ("range", b"1"), ("roundrobin", b"1")])
    bench.sync(first)
    second = bench.join(protocols=[("roundrobin", b"2"), ("range", b"2")])
    third = bench.join(protocols=[("roundrobin", b"3"), ("range", b"3")])
    [again] = bench.join(first.member_id, protocols=[("sticky", b""), ("range", b"1"), ("roundrobin", b"1")])
    assert {again.protocol, second[0].protocol, third[0].protocol} == {"roundrobin"}
    assert [metadata for _, _, metadata in again.members] == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("protocols", "kind"),
    [([("cooperative", b"")], "consumer"), (RANGE, "connect"), ([], "consumer"), (RANGE, "")],
)
def test_a_member_with_nothing_in_common_is_turned_away(
    protocols: list[tuple[str, bytes]], kind: str
) -> None:
    bench = Bench()
    bench.two_members()
    [refused] = bench.join(protocols=protocols, kind=kind)
    assert refused.error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert bench.state() is GroupState.STABLE


def test_requests_of_an_old_generation_are_refused() -> None:
    bench = Bench()
    first, _ = bench.two_members()
    with pytest.raises(ApiError) as told:
        bench.group.heartbeat(first.member_id, None, 1)
    assert told.value.code == ErrorCode.ILLEGAL_GENERATION
    [synced] = bench.sync(first._replace(generation=1))
    assert synced.error == ErrorCode.ILLEGAL_GENERATION


def test_a_sync_that_names_another_protocol_is_refused() -> None:
    bench = Bench()
    [first] = bench.join()
    answers: list[SyncResult] = []
    bench.group.sync(SyncRequest(first.member_id, None, 1, "consumer", "roundrobin", {}), answers.append)
    assert answers[0].error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_new_member_during_sync_sends_those_who_wait_back_to_join() -> None:
    bench = Bench()
    first, second = bench.two_members()
    changed = bench.join(second.member_id, protocols=[("range", b"other")])
    bench.join(first.member_id)
    follower = bench.sync(changed[0])
    bench.join()
    assert follower[0].error == ErrorCode.REBALANCE_IN_PROGRESS
    assert bench.state() is GroupState.PREPARING


def test_a_static_member_that_restarts_takes_its_place_without_a_new_round() -> None:
    bench = Bench()
    [first] = bench.join()
    bench.sync(first, {})
    waiting = bench.join(instance="i1")
    [first] = bench.join(first.member_id)
    static = waiting[0]
    bench.group.sync(SyncRequest(static.member_id, "i1", 2, None, None, {}), lambda _: None)
    bench.sync(first, {static.member_id: b"mine"})
    [back] = bench.join(instance="i1")
    assert (back.error, back.generation, back.leader) == (ErrorCode.NONE, 2, first.member_id)
    assert back.member_id != static.member_id
    assert bench.state() is GroupState.STABLE
    answers: list[SyncResult] = []
    bench.group.sync(SyncRequest(back.member_id, "i1", 2, None, None, {}), answers.append)
    assert answers[0].assignment == b"mine"
    with pytest.raises(ApiError) as told:
        bench.group.heartbeat(static.member_id, "i1", 2)
    assert told.value.code == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_leader_that_restarts_is_told_to_skip_assigning_where_it_can_be() -> None:
    bench = Bench()
    [leader] = bench.join(instance="i1")
    bench.group.sync(
        SyncRequest(leader.member_id, "i1", 1, None, None, {leader.member_id: b"x"}), lambda _: None
    )
    [old_client] = bench.join(instance="i1")
    assert old_client.leader == leader.member_id != old_client.member_id
    assert old_client.members == ()
    [new_client] = bench.join(instance="i1", skip=True)
    assert new_client.leader == new_client.member_id
    assert new_client.skip_assignment
    assert len(new_client.members) == 1


@pytest.mark.parametrize(("protocol", "generation"), [("range", 1), ("sticky", 2)])
def test_a_static_member_with_another_protocol_starts_a_new_round_and_with_other_topics_none(
    protocol: str, generation: int
) -> None:
    bench = Bench()
    [leader] = bench.join(instance="i1", protocols=[("range", b""), ("sticky", b"")])
    bench.group.sync(SyncRequest(leader.member_id, "i1", 1, None, None, {}), lambda _: None)
    [again] = bench.join(instance="i1", protocols=[(protocol, b"new topics")])
    assert again.generation == generation


def test_the_first_round_waits_for_more_members_while_they_keep_coming() -> None:
    bench = Bench(delay_ms=3_000)
    first = bench.join()
    bench.clock.advance(2)
    second = bench.join()
    bench.clock.advance(2)
    assert first == second == []
    bench.clock.advance(2.1)
    assert [first[0].generation, second[0].generation] == [1, 1]


def test_a_full_group_takes_nobody() -> None:
    bench = Bench(max_size=1)
    bench.join()
    [refused] = bench.join()
    assert refused.error == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_only_an_empty_group_can_be_deleted() -> None:
    bench = Bench()
    [first] = bench.join()
    with pytest.raises(ApiError) as told:
        bench.group.delete()
    assert told.value.code == ErrorCode.NON_EMPTY_GROUP
    bench.group.leave(first.member_id, None)
    bench.group.delete()
    assert bench.state() is GroupState.DEAD


def test_a_second_join_of_the_same_member_answers_the_first() -> None:
    bench = Bench()
    first, _ = bench.two_members()
    lost = bench.join(first.member_id)
    bench.join(first.member_id)
    assert lost[0].error == ErrorCode.REBALANCE_IN_PROGRESS

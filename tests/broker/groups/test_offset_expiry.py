"""The rules of KIP-211 for the expiry of committed offsets."""

import pytest

from pyklient.broker.groups.committed_offset import CommittedOffset
from pyklient.broker.groups.group import Group
from pyklient.broker.groups.member import Member
from pyklient.broker.groups.offset_expiry import expired_offsets
from pyklient.broker.groups.states import GroupState
from pyklient.protocol.messages import ConsumerProtocolSubscription
from pyklient.topic_partition import TopicPartition
from tests.broker.groups.hand_clock import HandClock

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)
OFFSETS = {OLD: CommittedOffset(5, 0, "", 1_000), NEW: CommittedOffset(5, 0, "", 9_000)}
RETENTION = 10_000


def group(protocol_type: str | None, state: GroupState, subscription: bytes | None = None) -> Group:
    made = Group("g", HandClock(), initial_delay_ms=0, max_size=10, on_generation=lambda _: None)
    made.protocol_type, made.protocol, made.state = protocol_type, "range", state
    if subscription is not None:
        member = Member(
            member_id="m",
            instance_id=None,
            client_id="c",
            client_host="h",
            session_timeout_ms=1000,
            rebalance_timeout_ms=1000,
            protocols=[("range", subscription)],
        )
        made.members.add(member)
    return made


def subscribed(*topics: str) -> bytes:
    return ConsumerProtocolSubscription(topics=list(topics)).encode_blob()


def expired(of: Group, now: int, empty_since: int = -1) -> set[TopicPartition]:
    return set(expired_offsets(of, empty_since, OFFSETS, RETENTION, now))


def test_without_members_ever_each_offset_counts_from_its_own_commit() -> None:
    simple = group(None, GroupState.EMPTY)
    assert expired(simple, 10_999) == set()
    assert expired(simple, 11_000) == {OLD}
    assert expired(simple, 19_000) == {OLD, NEW}


def test_a_group_that_lost_its_members_counts_from_then() -> None:
    empty = group("consumer", GroupState.EMPTY)
    assert expired(empty, 59_999, empty_since=50_000) == set()
    assert expired(empty, 60_000, empty_since=50_000) == {OLD, NEW}
    assert expired(empty, 11_000, empty_since=-1) == {OLD}, "the time is unknown: the commit counts"


def test_while_consumers_use_the_group_only_topics_without_a_subscriber_expire() -> None:
    assert expired(group("consumer", GroupState.STABLE, subscribed("new")), 10**9) == {OLD}
    assert expired(group("consumer", GroupState.STABLE, subscribed("new")), 10_999) == set()
    assert expired(group("consumer", GroupState.STABLE, subscribed("old", "new")), 10**9) == set()


@pytest.mark.parametrize("state", [GroupState.PREPARING, GroupState.COMPLETING])
def test_nothing_expires_during_a_rebalance(state: GroupState) -> None:
    assert expired(group("consumer", state, subscribed("new")), 10**9) == set()


@pytest.mark.parametrize(
    ("protocol_type", "subscription"), [("connect", subscribed("new")), ("consumer", b"x")]
)
def test_nothing_expires_if_the_subscriptions_are_unknown(protocol_type: str, subscription: bytes) -> None:
    assert expired(group(protocol_type, GroupState.STABLE, subscription), 10**9) == set()


def test_a_time_that_the_client_has_chosen_counts_alone() -> None:
    chosen = {OLD: CommittedOffset(5, 0, "", 1_000, 70_000), NEW: CommittedOffset(5, 0, "", 1_000, 2_000)}
    empty = group("consumer", GroupState.EMPTY)
    assert expired_offsets(empty, 1_000, chosen, RETENTION, 69_999) == [NEW]
    assert expired_offsets(empty, 1_000, chosen, RETENTION, 70_000) == [OLD, NEW]

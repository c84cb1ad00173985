"""The partitions that a member claims after a part of a handover has failed, and what its listener hears."""

import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyklient.assignors.assignors_by_name import load_assignor
from pyklient.config import ConsumerConfig
from pyklient.consumer.group.classic.handover import Handover
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.states import Event
from pyklient.consumer.group.membership_thread import MembershipThread
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerConnectionError, KafkaError, KafkaTimeoutError, broker_error
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import wait_for
from tests.consumer.group.classic.test_dialogues import stable

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))


class ScriptedHandler:
    """An assignment handler whose ``assigned`` raises ``error`` if there is one."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.then: Callable[[], None] = lambda: None
        self.owned: set[TopicPartition] = set()
        self.known_lost: set[TopicPartition] = set()
        self.told: list[str] = []
        self.lease = 0.0
        self.kept: list[float] = []

    def extend_lease(self, until: float) -> None:
        self.lease = until

    def keep_lease(self, until: float) -> None:
        self.kept.append(until)

    def assigned(self, partitions: Collection[TopicPartition], identity: MemberIdentity) -> None:
        self.then()
        self.told.append("assigned")
        if self.error is not None:
            raise self.error
        self.owned.update(partitions)

    def revoked(
        self, partitions: Collection[TopicPartition], timeout: float, identity: MemberIdentity | None
    ) -> None:
        self.owned.difference_update(partitions)

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.known_lost.update(partitions)

    def fail(self, error: Exception) -> None:
        self.error = error

    def tell_all_lost(self) -> None:
        self.told.append("lost")


class ScriptedHeartbeats:
    """The part of a HeartbeatSchedule that a handover uses. A heartbeat is due at once if there is an
    *event* that follows from it."""

    interval = 0.01

    def __init__(self, event: Event | None = None) -> None:
        self.event = event

    @property
    def due_at(self) -> float:
        """The time of the next heartbeat."""
        return time.monotonic() + (3600 if self.event is None else -1)

    def postpone(self) -> None:
        """Do nothing: when a heartbeat is due does not depend on the member."""

    def slept_too_long(self) -> bool:
        return False

    def send(self) -> Event | None:
        event, self.event = self.event, None
        return event


class Open:
    """The part of a DialoguePlayer that a handover uses, while the client is open."""

    def check_open(self) -> None: ...


@contextmanager
def handing_over(
    handler: ScriptedHandler,
    heartbeats: ScriptedHeartbeats,
    member: Member,
    thread: MembershipThread | None = None,
) -> Iterator[Handover]:
    """Run the rebalance thread of a handover until the block ends."""
    stub: Any = handler
    dialogues: Any = Open()
    beats: Any = heartbeats
    group_thread = thread or MembershipThread("member")
    handover = Handover(ConsumerConfig(group_id="g"), member, stub, dialogues, beats, group_thread)
    handover.thread.thread.start()
    try:
        yield handover
    finally:
        handover.thread.end()
        handover.thread.thread.join(30)


def test_a_member_does_not_claim_what_it_gave_back_although_it_could_not_begin_the_new_ones() -> None:
    member, handler = stable(assignors=[load_assignor("cooperative-sticky")]), ScriptedHandler()
    with handing_over(handler, ScriptedHeartbeats(), member) as handover:
        handover.pending = [ZERO, ONE]
        handover.assign(handover.pending)
        assert member.owned == {ZERO, ONE}
        handover.pending = [ONE, TWO]
        handler.error = BrokerConnectionError("no broker answers")
        handover.assign(handover.pending)
        assert handover.pending == [ONE, TWO], "the call is to be made again"
        assert member.owned == handler.owned == {ONE}, "the others may give the partition away at once"
        handler.error = None
        handover.assign(handover.pending)
        assert member.owned == handler.owned == {ONE, TWO}


def test_a_listener_hears_that_partitions_are_lost_after_it_heard_that_they_are_assigned() -> None:
    handler, begun, go_on = ScriptedHandler(), threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        go_on.wait(60)

    handler.then = block
    with handing_over(handler, ScriptedHeartbeats(), stable()) as handover:
        assigning = handover.thread.call(lambda: handler.assigned([ZERO], MemberIdentity()))
        assert begun.wait(30)
        handover.fail(KafkaError("fenced"))
        assert handler.told == []
        assert isinstance(handler.error, KafkaError), "loops hear of it at once"
        go_on.set()
        with pytest.raises(KafkaError):
            assigning.result(30)
    assert handler.told == ["assigned", "lost"]


def test_new_partitions_are_lost_too_if_the_group_removes_the_member_while_they_are_assigned() -> None:
    handler, heartbeats = ScriptedHandler(), ScriptedHeartbeats(Event.LOST)

    def wait_for_heartbeat() -> None:
        wait_for(lambda: heartbeats.event is None, "the heartbeat")

    handler.then = wait_for_heartbeat
    with handing_over(handler, heartbeats, stable()) as handover:
        assert handover.assign([ZERO]) is Event.LOST
    assert handler.known_lost == {ZERO}


def test_the_lease_of_the_streams_goes_on_while_a_member_with_partitions_joins() -> None:
    member = stable(assignors=[load_assignor("cooperative-sticky")], confirmed_at=100.0)
    handler = ScriptedHandler()
    with handing_over(handler, ScriptedHeartbeats(), member) as handover:
        with handover.keeping_lease():
            assert handler.kept == [], "it has nothing to hand out"
        handover.assign([ZERO])
        assert handler.lease == member.confirmed_until == 110.0
        with handover.keeping_lease():
            wait_for(lambda: len(handler.kept) > 2, "the lease to be extended again and again")
        assert max(handler.kept) == 130.0, "the group waits for its members for 20 s at most"


def test_a_member_that_has_joined_and_cannot_begin_to_read_tells_why() -> None:
    handler, thread = ScriptedHandler(), MembershipThread("member")
    with handing_over(handler, ScriptedHeartbeats(), stable(), thread) as handover:
        handler.error = broker_error(ErrorCode.UNSTABLE_OFFSET_COMMIT, "cannot fetch the offsets of group g")
        handover.assign([ZERO])
        with pytest.raises(KafkaTimeoutError, match=r"partitions within 0 s: .* still open") as raised:
            thread.wait_until_joined(0, "it could not join")
        assert raised.value.__cause__ is handler.error
        handler.error = None
        handover.assign([ZERO])
        with pytest.raises(KafkaTimeoutError, match="it could not join"):
            thread.wait_until_joined(0, "it could not join")

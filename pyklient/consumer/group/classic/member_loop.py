"""The group thread, which joins the group, sends heartbeats and leaves. ``states.py`` has the table of the
member's states and events.

A Handover gives partitions to the assignment handler and takes them back. A member leaves the group if the
program works on one message for longer than ``max_poll_interval_ms``. During a rebalance, the limit is
``rebalance_timeout_ms``.
"""

import logging
import time
from collections.abc import Callable, Collection, Set
from contextlib import suppress
from functools import partial

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.classic.handover import Handover
from pyklient.consumer.group.classic.heartbeat_and_leave import leave
from pyklient.consumer.group.classic.heartbeat_schedule import HeartbeatSchedule
from pyklient.consumer.group.classic.join import join
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.states import Event, State
from pyklient.consumer.group.membership_thread import MembershipThread
from pyklient.counted import counted
from pyklient.errors import ClosedError, KafkaError
from pyklient.log_events import log_fields
from pyklient.net.dialogue_player import DialoguePlayer
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.outage import Outage
from pyklient.topic_partition import TopicPartition

__all__ = ["MemberLoop"]

log = logging.getLogger("pyklient.consumer")

_LEAVE_TIMEOUT = 3.0
_JOIN_MARGIN = 10.0


class MemberLoop:
    """Lets *member* join, send heartbeats and leave, on *thread*.

    *handler* reads the partitions of the member.
    """

    def __init__(
        self,
        client: NetworkClient,
        config: ConsumerConfig,
        member: Member,
        handler: AssignmentHandler,
        thread: MembershipThread,
    ) -> None:
        self._client = client
        self._member = member
        self._handler = handler
        self._thread = thread
        self._max_poll_interval_ms = config.max_poll_interval_ms
        self._dialogues = DialoguePlayer(client)
        self._heartbeats = HeartbeatSchedule(config, member, self._dialogues)
        self.handover = Handover(config, member, handler, self._dialogues, self._heartbeats, thread)
        self._subscribed: Set[str] = member.topics
        """The topics to which the member subscribed when it last joined."""
        self._joining = Outage(log, f"joining group {member.group_id}", "join_outage", group=member.group_id)
        self._stalled = False
        self._cause = "the member is new"
        self._began = time.monotonic()

    def close(self) -> None:
        """Make the thread leave the group and end. This method acquires no lock and never waits."""
        self._dialogues.closing = True
        self._thread.wake()

    def run(self) -> None:
        """Run the step of the member's current state (see ``states``), again and again, until the member has
        left its group for good."""
        steps: dict[State, Callable[[], None]] = {
            State.OUTSIDE: self._stay_outside,
            State.JOINING: self._join,
            State.SYNCING: partial(self._member.on, Event.REJOIN),
            State.STABLE: self._stay,
            State.RELEASING: self._release,
            State.LEAVING: self._leave,
        }
        try:
            self.handover.begin()
            while self._member.state is not State.CLOSED:
                try:
                    steps[self._member.state]()
                except ClosedError:
                    # A connection was closed under us, by leave() or for being idle; or the whole client was.
                    self._dialogues.check_open()
                if self._dialogues.closing and self._member.state in (State.JOINING, State.SYNCING):
                    self._member.on(Event.CLOSE)
        except Exception as error:
            self._fail(error)
        self._handler.ended()
        self.handover.thread.end()

    def notice_topics(self) -> None:
        """Find the topics to read in the newest metadata. Tell the assignment handler to which of these
        topics the brokers deny access."""
        topics = self._member.selection.update(self._client.metadata)
        self._handler.set_topic_errors(self._client.metadata.topic_errors(topics))

    def _stay_outside(self) -> None:
        if self._dialogues.closing:
            self._member.on(Event.CLOSE)
        elif self._stalled and not self._handler.goes_on():
            self._wait(self._heartbeats.interval)
        else:
            if self._stalled:
                self._begin_rebalance("the member's loop goes on")
                self._stalled = False
            self._member.on(Event.START)

    def _join(self) -> None:
        member = self._member
        self._subscribed, self.handover.must_rejoin = member.topics, False
        timeout = member.rebalance_timeout_ms / 1000 + _JOIN_MARGIN
        try:
            with self.handover.keeping_lease():
                partitions = self._dialogues.play(join(member, self._cause), timeout)
        except KafkaError as error:
            if not error.retriable:
                raise
            self._joining.failed(error, "this member joins again")
            return
        self._joining.ended()
        if partitions is None:
            self.handover.give_up()
            return
        self.handover.pending = partitions
        asks_for = member.selection.subscription.asks_for
        self._handler.watch(None if asks_for is None else asks_for | (member.watched or {}).keys())
        self._heartbeats.begin()
        # Before the handler has them: the first message may be handed out while this thread is still busy.
        log.info(
            "group %s has rebalanced, because %s; member %s got %s in generation %d. The rebalance took %.2f "
            "s",
            member.group_id,
            self._cause,
            member.member_id,
            counted(len(partitions), "partition"),
            member.generation,
            time.monotonic() - self._began,
            extra=log_fields(
                "rebalanced",
                group=member.group_id,
                member=member.member_id,
                generation=member.generation,
                partitions=len(partitions),
                cause=self._cause,
                seconds=round(time.monotonic() - self._began, 3),
            ),
        )

    def _stay(self) -> None:
        """Do one round of work while the member is stable: assign pending partitions, wait, commit, and send
        a heartbeat."""
        if self.handover.pending is not None:
            self._assign(self.handover.pending)
            if self._member.state is not State.STABLE:
                return
        else:
            self._wait(min(self._heartbeats.due_at, self._handler.next_commit_at) - time.monotonic())
        now = time.monotonic()
        if self._dialogues.closing:
            self._cause = "the client closes"
            self._member.on(Event.CLOSE)
            return
        if (event := self.handover.event_after_sleep()) is not None:
            self._rebalance(event)
            return
        self._handler.commit_if_due(now)
        if self._member.selection.update(self._client.metadata) != self._subscribed:
            self._begin_rebalance("the member's subscription has changed")
            self._member.on(Event.REJOIN)
        elif now >= self._heartbeats.due_at:
            self._look_around()

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        """Hand *partitions* over to the assignment handler. Begin another rebalance if the member has given
        back partitions for which other members wait."""
        event = self.handover.assign(partitions)
        if self.handover.pending is None and not self._thread.joined.done():
            self._thread.joined.set_result(None)
        if self._dialogues.closing:
            return
        if event is not None:
            self._rebalance(event)
        elif self.handover.must_rejoin and self.handover.pending is None:
            self._begin_rebalance("the member has given partitions back")
            self._member.on(Event.REJOIN)

    def _look_around(self) -> None:
        """Check if topics have changed and if a loop has stalled, and send a heartbeat. The group thread
        calls this once in every heartbeat interval."""
        member = self._member
        self.notice_topics()
        if self._handler.stalled_for() * 1000 >= self._max_poll_interval_ms:
            log.warning(
                "group %s: member %s leaves, because its loop has asked for no message within "
                "max_poll_interval_ms=%d although a message waits; the member joins again when the "
                "loop continues",
                member.group_id,
                member.member_id,
                self._max_poll_interval_ms,
                extra=log_fields("loop_stalled", group=member.group_id, member=member.member_id),
            )
            self._cause, self._stalled = "the member's loop stood still", True
            member.on(Event.STALLED)
        elif grown := topic_changes(self._member, self._client.metadata):
            self._begin_rebalance(grown)
            member.on(Event.REJOIN)
        elif (event := self.handover.send_heartbeat()) is not None:
            self._rebalance(event)

    def _rebalance(self, event: Event) -> None:
        """Begin a rebalance, because a heartbeat has led to *event*."""
        self._begin_rebalance(
            "the group had removed the member" if event is Event.LOST else "a member joined or left"
        )
        self._member.on(event)

    def _begin_rebalance(self, cause: str) -> None:
        self._cause, self._began = cause, time.monotonic()

    def _release(self) -> None:
        self.handover.give_back()
        self._member.on(Event.RELEASED)

    def _leave(self) -> None:
        # A loop that has stood still for max_poll_interval_ms has had its time.
        self.handover.give_all_back(at_once=self._stalled)
        if self._dialogues.in_vain() is None:
            with suppress(KafkaError):
                self._dialogues.play(leave(self._member, self._cause), _LEAVE_TIMEOUT)
        self._member.on(Event.RELEASED)

    def _fail(self, error: Exception) -> None:
        if self._dialogues.closing and isinstance(error, ClosedError):
            return
        log.error(
            "group %s: this member has stopped because of an error: %s",
            self._member.group_id,
            error,
            extra=log_fields("member_stopped", group=self._member.group_id, error=str(error)),
        )
        self.handover.fail(error)
        if not self._thread.joined.done():
            self._thread.joined.set_exception(error)
        # Otherwise the group would wait for this member until its session ends.
        with suppress(KafkaError):
            self._dialogues.play(leave(self._member, "an error has stopped the member"), _LEAVE_TIMEOUT)

    def _wait(self, seconds: float) -> None:
        if not self._dialogues.closing:
            self._thread.wait(seconds)


def topic_changes(member: Member, metadata: Metadata) -> str:
    """Return a text that says how the topics in *metadata* have changed since *member* assigned them as the
    leader.

    The text is empty if they have not changed.
    """
    changes = [
        f"topic {topic} has {counted(count, 'partition')} now, {before:,} before"
        for topic, before in (member.watched or {}).items()
        if (count := metadata.partition_count(topic)) and count != before
    ]
    return ", ".join(changes)

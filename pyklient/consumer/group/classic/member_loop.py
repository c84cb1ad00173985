"""The group thread: it joins, sends heartbeats and leaves, in the order that the table of states gives.

A second thread calls the assignment handler to revoke and assign partitions, and the group thread sends
heartbeats until that call has returned. So neither a slow handler of messages nor a slow rebalance listener
ends the session. ``max_poll_interval_ms`` limits the time for a handler of messages. During a rebalance,
``rebalance_timeout_ms`` limits the time for the handler and the listener together.
"""

import logging
import queue
import time
from collections.abc import Callable, Collection, Set
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.classic.heartbeat import heartbeat, leave
from pyklient.consumer.group.classic.join import join
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.states import Event, State
from pyklient.consumer.group.rebalance_thread import RebalanceThread
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import ClosedError, KafkaError
from pyklient.net.dialogue import Dialogue, while_worthwhile
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import TopicPartition

__all__ = ["MemberLoop"]

log = logging.getLogger("pyklient.consumer")

_T = TypeVar("_T")

_LEAVE_TIMEOUT = 3.0
_JOIN_MARGIN = 10.0
_SHARE_IN_HAND = 0.9
"""The part of the rebalance time-out in which a loop may finish its message in hand. The remainder is for a
commit, the listener and the request to join."""


class MemberLoop:
    """Lets *member* join, send heartbeats and leave, on one thread. *handler* reads the assigned partitions.

    ``joined`` is done when the first partitions are assigned, or when an error makes that impossible.
    """

    def __init__(self, client: NetworkClient, config: ConsumerConfig, member: Member) -> None:
        self._client = client
        self._member = member
        self._heartbeat_interval = config.heartbeat_interval_ms / 1000
        self._heartbeat_timeout = min(config.session_timeout_ms, config.request_timeout_ms) / 1000
        # A rebalance is heard of with a heartbeat, up to one interval after the group has begun to wait.
        rebalance = config.rebalance_timeout_ms / 1000
        self._revocation_timeout = max(rebalance / 2, (rebalance - self._heartbeat_interval) * _SHARE_IN_HAND)
        self._max_poll_interval_ms = config.max_poll_interval_ms
        self.handler: AssignmentHandler
        self.joined: Future[None] = Future()
        self.over = False
        """True when this thread has nothing more to do except to call ``then``."""
        self.then: Callable[[], None] | None = None
        """A function that this thread calls as its last step, or None."""
        bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._bell = bell
        self._owned: frozenset[TopicPartition] = frozenset()
        self._pending: list[TopicPartition] | None = None
        """The partitions of this generation, until the handler has got all of them."""
        self._subscribed: Set[str] = member.topics
        """The topics to which the member subscribed when it joined last."""
        self._noticed: Event | None = None
        self._rejoin = False
        """True if the member has given back partitions for which other members wait."""
        self._closing = False
        self._stalled = False
        self._cause = "the member is new"
        self._began = self._heartbeat_at = time.monotonic()
        self.rebalance_thread = RebalanceThread(
            f"pyklient-rebalance-{config.group_id}", done=partial(bell.put, None)
        )

    def close(self) -> None:
        """Make the thread leave the group and end. This acquires no lock and never waits."""
        self._closing = True
        self._bell.put(None)

    def wake(self) -> None:
        """Make the thread check at once what there is to do."""
        self._bell.put(None)

    def run(self) -> None:
        """Do the steps that the table of states gives, until the member has left its group for good."""
        steps: dict[State, Callable[[], None]] = {
            State.OUTSIDE: self._stay_outside,
            State.JOINING: self._join,
            State.SYNCING: partial(self._member.on, Event.REJOIN),
            State.STABLE: self._stay,
            State.RELEASING: self._release,
            State.LEAVING: self._leave,
        }
        try:
            self._have_revoked((), 0.0)
            while self._member.state is not State.CLOSED:
                try:
                    steps[self._member.state]()
                except ClosedError:
                    # A connection was closed under us, by leave() or for being idle; or the whole client was.
                    self._client.pause(0)
                if self._closing and self._member.state in (State.JOINING, State.SYNCING):
                    self._member.on(Event.CLOSE)
        except Exception as error:
            self._fail(error)
        if not self.joined.done():
            self.joined.set_exception(
                ClosedError("this ConsumerConnector was closed before it had joined its group")
            )
        self.handler.ended()
        self.rebalance_thread.end()
        self.over = True
        if self.then is not None:
            self.then()

    def notice_topics(self) -> None:
        """Select the topics to read by the newest metadata, and tell the handler which of them the brokers do
        not allow."""
        topics = self._member.selection.update(self._client.metadata)
        self.handler.set_topic_errors(self._client.metadata.topic_errors(topics))

    def _play(self, dialogue: Dialogue[_T], timeout: float) -> _T:
        """Play *dialogue*, and return its result. While the client closes, stop if no broker can be
        reached."""

        def in_vain() -> KafkaError | None:
            return self._client.unreachable() if self._closing else None

        return self._client.play(while_worthwhile(dialogue, in_vain), timeout)

    def _stay_outside(self) -> None:
        if self._closing:
            self._member.on(Event.CLOSE)
        elif self._stalled and not self.handler.goes_on():
            self._wait(self._heartbeat_interval)
        else:
            if self._stalled:
                self._begin_rebalance("the member's loop goes on")
                self._stalled = False
            self._member.on(Event.START)

    def _join(self) -> None:
        member = self._member
        self._subscribed, self._rejoin = member.topics, False
        timeout = member.rebalance_timeout_ms / 1000 + _JOIN_MARGIN
        try:
            self._pending = self._play(join(member, self._cause), timeout)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("group %s: this member joins again, because of an error: %s", member.group_id, error)
            return
        asks_for = member.selection.subscription.asks_for
        self.handler.watch(None if asks_for is None else asks_for | (member.watched or {}).keys())
        self._heartbeat_at = time.monotonic() + self._heartbeat_interval
        # Before the handler has them: the first message may be handed out while this thread is still busy.
        log.info(
            "group %s has rebalanced, because %s; member %s got %d partitions in generation %d, after %.2f s",
            member.group_id,
            self._cause,
            member.member_id,
            len(self._pending),
            member.generation,
            time.monotonic() - self._began,
        )

    def _stay(self) -> None:
        """Do one round of a stable member: assign pending partitions, wait, commit, send a heartbeat."""
        if self._pending is not None:
            self._assign(self._pending)
            if self._member.state is not State.STABLE:
                return
        else:
            self._wait(min(self._heartbeat_at, self.handler.next_commit_at) - time.monotonic())
        now = time.monotonic()
        if self._closing:
            self._cause = "the client closes"
            self._member.on(Event.CLOSE)
            return
        self.handler.commit_if_due(now)
        if self._member.selection.update(self._client.metadata) != self._subscribed:
            self._begin_rebalance("the member's subscription has changed")
            self._member.on(Event.REJOIN)
        elif now >= self._heartbeat_at:
            self._heartbeat_at = now + self._heartbeat_interval
            self._look_around()

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        """Make the handler revoke partitions that are not in *partitions*, and assign those that are new.

        Partitions are revoked only with an incremental assignor: with others, the member has given all
        partitions back before it joined. Revoked partitions go to others when all members have joined again.
        """
        member, identity = self._member, self._member.identity
        if self._owned and not member.owned:
            # The group had removed the member, which then joined as a newcomer.
            self.handler.lost(self._owned)
            self._have_revoked(self._owned, 0.0)
        elif given_back := self._owned.difference(partitions):
            self._rejoin = True
            self._have_revoked(given_back, self._revocation_timeout, identity)
        new = [each for each in partitions if each not in self._owned]
        try:
            event = self._have(partial(self.handler.assigned, new, identity))
        except KafkaError as error:
            if not error.retriable:
                raise
            log.info(
                "group %s: committed offsets are asked for again, because of an error: %s",
                member.group_id,
                error,
            )
            event = self._noticed
        else:
            self._owned, self._pending = frozenset(partitions), None
            member.owned = self._owned if member.incremental and member.generation >= 0 else frozenset()
            if not self.joined.done():
                self.joined.set_result(None)
        if self._closing:
            return
        if event is not None:
            self._rebalance(event)
        elif self._rejoin and self._pending is None:
            self._begin_rebalance("the member has given partitions back")
            member.on(Event.REJOIN)

    def _look_around(self) -> None:
        """Check topics and loops, and send a heartbeat. This is called once every heartbeat interval."""
        member = self._member
        self.notice_topics()
        if self.handler.stalled_for() * 1000 >= self._max_poll_interval_ms:
            log.warning(
                "group %s: member %s leaves, because its loop has asked for no message within "
                "max_poll_interval_ms=%d although one waits; the member joins again when the loop continues",
                member.group_id,
                member.member_id,
                self._max_poll_interval_ms,
            )
            self._cause, self._stalled = "the member's loop stood still", True
            member.on(Event.STALLED)
        elif grown := topic_changes(self._member, self._client.metadata):
            self._begin_rebalance(grown)
            member.on(Event.REJOIN)
        elif (event := self._heartbeat()) is not None:
            self._rebalance(event)

    def _heartbeat(self) -> Event | None:
        """Send one heartbeat. Return the event that follows from the response, or None if nothing has
        changed."""
        try:
            event = self._play(heartbeat(self._member), self._heartbeat_timeout)
        except ClosedError:
            self._client.pause(0)  # raises if it is the client that was closed, not only a connection
            return None
        except KafkaError as error:
            if not error.retriable:
                raise
            log.info("group %s: the coordinator did not answer a heartbeat: %s", self._member.group_id, error)
            return None
        if event is Event.LOST:
            self.handler.lost(self._owned)
        return event

    def _rebalance(self, event: Event) -> None:
        """Begin the rebalance that *event*, which came from a heartbeat, requires."""
        self._begin_rebalance(
            "the group had removed the member" if event is Event.LOST else "a member joined or left"
        )
        self._member.on(event)

    def _begin_rebalance(self, cause: str) -> None:
        self._cause, self._began = cause, time.monotonic()

    def _have(self, call: Callable[[], None]) -> Event | None:
        """Make the rebalance thread run *call*, and send heartbeats until *call* returns. Return the event
        that followed from these heartbeats, and store it in ``_noticed``.

        Raises what *call* raises, and ClosedError when the client is closed.
        """
        done = self.rebalance_thread.call(call)
        self._noticed = None
        while not done.done():
            self._client.pause(0)  # raises once the client is closed, whatever the call still waits for
            is_member = self._member.generation >= 0
            left = self._heartbeat_at - time.monotonic() if is_member else self._heartbeat_interval
            with suppress(queue.Empty):
                self._bell.get(timeout=max(0.0, left))
            if is_member and time.monotonic() >= self._heartbeat_at and not done.done():
                self._heartbeat_at = time.monotonic() + self._heartbeat_interval
                self._noticed = self._heartbeat() or self._noticed
        done.result()
        return self._noticed

    def _have_revoked(
        self,
        partitions: Collection[TopicPartition],
        timeout: float,
        identity: MemberIdentity | None = None,
    ) -> None:
        try:
            self._have(partial(self.handler.revoked, partitions, timeout, identity))
        finally:  # until then, a heartbeat may tell that they are lost
            self._owned = self._owned.difference(partitions)

    def _release(self) -> None:
        """Give the partitions back before joining again, unless the member may keep them meanwhile."""
        self._pending = None
        if not (self._member.incremental and self._member.generation >= 0):
            self._have_revoked(self._owned, self._revocation_timeout)
        self._member.on(Event.RELEASED)

    def _leave(self) -> None:
        self._pending = None
        # A loop that has stood still for max_poll_interval_ms has had its time.
        self._have_revoked(self._owned, 0.0 if self._stalled else self._revocation_timeout)
        self._member.owned = frozenset()
        self.handler.left()
        if not (self._closing and self._client.unreachable()):
            with suppress(KafkaError):
                self._play(leave(self._member, self._cause), _LEAVE_TIMEOUT)
        self._member.on(Event.RELEASED)

    def _fail(self, error: Exception) -> None:
        if self._closing and isinstance(error, ClosedError):
            return
        log.error("group %s: this member has stopped because of an error: %s", self._member.group_id, error)
        self.handler.fail(error)
        if not self.joined.done():
            self.joined.set_exception(error)

    def _wait(self, seconds: float) -> None:
        if seconds > 0 and not self._closing:
            with suppress(queue.Empty):
                self._bell.get(timeout=seconds)


def topic_changes(member: Member, metadata: Metadata) -> str:
    """Return a text that says how the topics have changed since *member* assigned them as the leader.

    The text is empty if they have not changed.
    """
    changes = [
        f"topic {topic} has {count} partitions now, {before} before"
        for topic, before in (member.watched or {}).items()
        if (count := metadata.partition_count(topic)) and count != before
    ]
    return ", ".join(changes)

"""Membership of a group that Kafka's brokers coordinate (the classic protocol, eager).

One thread holds the membership: it joins and sends heartbeats, as the table of states says. It has the owner
release partitions and take new ones on a second thread, and sends heartbeats until that is done. So neither
a slow handler nor a slow rebalance listener ends the session. ``max_poll_interval_ms`` bounds a handler;
``rebalance_timeout_ms`` bounds both during a rebalance.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Set
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TypeVar

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.classic.dialogues import Member, heartbeat, join, leave
from pyklient.consumer.group.classic.states import Event, State
from pyklient.consumer.group.membership import Assignment, Owner
from pyklient.consumer.group.rebalance_thread import RebalanceThread
from pyklient.consumer.offsets.kafka import (
    COMMIT_VERSION,
    commit_offsets,
    commit_request,
    fetch_offsets,
    refused,
)
from pyklient.errors import ClosedError, KafkaError, KafkaTimeoutError
from pyklient.net.client import NetworkClient
from pyklient.net.dialogue import Dialogue, while_worthwhile
from pyklient.net.pool import Purpose
from pyklient.protocol.messages import OffsetCommitResponse
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["KafkaMembership"]

log = logging.getLogger("pyklient.consumer")

T = TypeVar("T")

_TICK = 0.1
_LEAVE_TIMEOUT = 3.0
_JOIN_MARGIN = 10.0
_SHARE_IN_HAND = 0.9
"""Of the time that the group waits for its members to join again, a message in hand gets so much. The rest is
for a commit, the listener and the request to join."""


class KafkaMembership:
    """A member of ``config.group_id``. *watch* keeps the client's metadata of some topics fresh."""

    def __init__(
        self, client: NetworkClient, config: ConsumerConfig, watch: Callable[[Collection[str]], None]
    ) -> None:
        self._client = client
        self._watch = watch
        self._member = Member(
            group_id=config.group_id or "",
            instance_id=config.group_instance_id,
            strategy=config.partition_assignment_strategy,
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
        )
        self._stable_reads = config.isolation_level == "read_committed"
        self._heartbeat_interval = config.heartbeat_interval_ms / 1000
        self._offsets_timeout = max(self._heartbeat_interval, config.session_timeout_ms / 3000)
        self._heartbeat_timeout = min(config.session_timeout_ms, config.request_timeout_ms) / 1000
        self._commit_interval = (
            config.auto_commit_interval_ms / 1000 if config.enable_auto_commit else float("inf")
        )
        # A rebalance is heard of with a heartbeat, up to one interval after the group has begun to wait.
        rebalance = config.rebalance_timeout_ms / 1000
        self._patience = max(rebalance / 2, (rebalance - self._heartbeat_interval) * _SHARE_IN_HAND)
        self._max_poll_interval_ms = config.max_poll_interval_ms
        self._first_contact_timeout = config.default_api_timeout_ms / 1000
        self._join_timeout = max(config.default_api_timeout_ms, config.rebalance_timeout_ms) / 1000
        self._owner: Owner
        self._assignment: Assignment | None = None
        self._pending: list[TopicPartition] | None = None
        self._taken: Future[None] = Future()
        bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._bell = bell
        self._closing = False
        self._over = False
        self._then: Callable[[], None] | None = None
        self._stalled = False
        self._cause = "the member is new"
        self._began = self._beat_at = self._commit_at = time.monotonic()
        self.thread = threading.Thread(
            target=self._run, name=f"pyklient-group-{config.group_id}", daemon=True
        )
        self._rebalance_thread = RebalanceThread(
            f"pyklient-rebalance-{config.group_id}", done=partial(bell.put, None)
        )

    @property
    def assignment(self) -> Assignment | None:
        """The newest assignment, active or not; None before the first."""
        return self._assignment

    def runs_here(self) -> bool:
        """See Membership.runs_here."""
        return threading.current_thread() in self._threads

    def join(self, timeout: float) -> None:
        """See Membership.join."""
        deadline = time.monotonic() + timeout
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(max(0.0, deadline - time.monotonic()))

    def start(self, topics: Set[str], owner: Owner) -> None:
        """Join, and return once the first assignment is taken. Raises what makes that impossible.

        The first contact is made here, in the caller's thread: a wrong address ends in its own error, soon.
        """
        self._member.topics = topics
        self._owner = owner
        self._client.refresh_metadata(topics, self._first_contact_timeout)
        self._notice_refusals()
        self._watch(topics)
        self._rebalance_thread.thread.start()
        self.thread.start()
        try:
            self._taken.result(self._join_timeout)
        except KafkaError:
            raise
        except TimeoutError:
            raise KafkaTimeoutError(
                f"group {self._member.group_id}: not joined within {self._join_timeout:.3g} s; "
                "is another member slow to give its partitions back?"
            ) from None

    def commit(
        self,
        assignment: Assignment,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout: float,
    ) -> dict[TopicPartition, int]:
        """See Membership.commit."""
        try:
            return self._play(commit_offsets(self._member, assignment, offsets), timeout)
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(f"group {self._member.group_id}, committing offsets: {error}") from error

    def send(
        self, assignment: Assignment, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> "Future[dict[TopicPartition, int]] | None":
        """The same without waiting; None when it cannot be sent right now."""
        node_id = self._member.coordinator
        if node_id is None:
            return None
        codes: Future[dict[TopicPartition, int]] = Future()

        def answered(future: "Future[OffsetCommitResponse]") -> None:
            error = future.exception()
            if error is None:
                codes.set_result(refused(future.result()))
            else:
                codes.set_exception(error)

        try:
            # Waits once, where it has to be opened: as long as the next heartbeat can.
            connection = self._client.connection(node_id, Purpose.OTHER, self._heartbeat_interval)
            request = commit_request(self._member, assignment, offsets)
            connection.send(request, max_version=COMMIT_VERSION).add_done_callback(answered)
        except KafkaError as error:
            log.info("group %s: cannot commit right now: %s", self._member.group_id, error)
            return None
        return codes

    def leave(self, timeout: float) -> None:
        """Release everything, leave the group and end the thread, all in about *timeout* seconds."""
        self._closing = True
        self._bell.put(None)
        deadline = time.monotonic() + timeout
        while self.thread.is_alive() and time.monotonic() < deadline:
            self.thread.join(_TICK)
            node_id = self._member.coordinator
            if self._member.state in (State.JOINING, State.SYNCING) and node_id is not None:
                # It may wait there until all other members have joined: cut that short.
                with suppress(KafkaError):
                    self._client.connection(node_id, Purpose.GROUP, _TICK).close()
        self._rebalance_thread.end()

    def trouble(self) -> KafkaError | None:
        """See Membership.trouble."""
        return self._client.unreachable()

    def abandon(self, then: Callable[[], None]) -> bool:
        """See Membership.abandon."""
        self._then = then
        self._closing = True
        self._bell.put(None)
        return not self._over

    @property
    def _threads(self) -> tuple[threading.Thread, threading.Thread]:
        return self.thread, self._rebalance_thread.thread

    def _play(self, conversation: Dialogue[T], timeout: float) -> T:
        """Play *conversation*; once this closes, only as long as a broker can be reached."""

        def in_vain() -> KafkaError | None:
            return self._client.unreachable() if self._closing else None

        return self._client.play(while_worthwhile(conversation, in_vain), timeout)

    def _run(self) -> None:
        steps = {
            State.OUTSIDE: self._stay_outside,
            State.JOINING: self._join,
            State.SYNCING: self._give_up_sync,
            State.STABLE: self._stay,
            State.RELEASING: self._release,
            State.LEAVING: self._leave,
        }
        try:
            self._have_owner(partial(self._owner.release, 0.0))
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
        if not self._taken.done():
            self._taken.set_exception(
                ClosedError("this ConsumerConnector was closed before it had joined its group")
            )
        self._rebalance_thread.end()
        self._over = True
        if self._then is not None:
            self._then()

    def _stay_outside(self) -> None:
        if self._closing:
            self._member.on(Event.CLOSE)
        elif self._stalled and not self._owner.wanted():
            self._wait(self._heartbeat_interval)
        else:
            if self._stalled:
                self._begin_rebalance("its loop goes on")
                self._stalled = False
            self._member.on(Event.START)

    def _join(self) -> None:
        timeout = self._member.rebalance_timeout_ms / 1000 + _JOIN_MARGIN
        try:
            self._pending = self._play(join(self._member, self._cause), timeout)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.warning("group %s: %s; trying again", self._member.group_id, error)
            return
        self._watch(self._member.topics | (self._member.watched or {}).keys())
        self._beat_at = time.monotonic() + self._heartbeat_interval

    def _give_up_sync(self) -> None:
        self._member.on(Event.REJOIN)

    def _stay(self) -> None:
        """One round: take what is new, wait, commit, send a heartbeat."""
        if self._pending is not None:
            self._take(self._pending)
            if self._member.state is not State.STABLE:
                return
        else:
            self._wait(min(self._beat_at, self._commit_at) - time.monotonic())
        now = time.monotonic()
        if self._closing:
            self._cause = "the client closes"
            self._member.on(Event.CLOSE)
            return
        if now >= self._commit_at:
            self._commit_at = now + self._commit_interval
            self._owner.commit_completed()
        if now >= self._beat_at:
            self._beat_at = now + self._heartbeat_interval
            self._beat()

    def _take(self, partitions: list[TopicPartition]) -> None:
        """Look up where to begin, and hand the assignment to the owner."""
        fetching = fetch_offsets(self._member, partitions, stable=self._stable_reads)
        try:
            starts = self._play(fetching, self._offsets_timeout)
        except KafkaError as error:
            if not error.retriable:
                raise
            log.info("group %s: committed offsets are not there yet: %s", self._member.group_id, error)
            return
        generation, before = self._member.generation, self._assignment
        follows = before is not None and before.generation == generation - 1
        held = before.held_since if before is not None and follows else {}
        looked_up = before.looked_up if before is not None else {}
        assignment = Assignment(
            starts,
            generation=generation,
            member_id=self._member.member_id,
            held_since={partition: held.get(partition, generation) for partition in partitions},
            looked_up={each: looked_up[each] for each in partitions if each in held and each in looked_up},
        )
        self._owner.prepare(assignment)
        self._assignment, self._pending = assignment, None
        self._commit_at = time.monotonic() + self._commit_interval
        # Before it is taken: the first message may be handed out while this thread is still busy with that.
        log.info(
            "group %s: generation %d, %d partitions for %s, after %.2f s; rebalanced because %s",
            self._member.group_id,
            generation,
            len(partitions),
            self._member.member_id,
            time.monotonic() - self._began,
            self._cause,
        )
        event = self._have_owner(partial(self._owner.take, assignment))
        if not self._taken.done():
            self._taken.set_result(None)
        if event is not None and not self._closing:
            self._rebalance(event)

    def _beat(self) -> None:
        """What happens every heartbeat interval."""
        self._notice_refusals()
        if self._owner.stalled_for() * 1000 >= self._max_poll_interval_ms:
            log.warning(
                "group %s: member %s leaves, because its loop has taken no message within "
                "max_poll_interval_ms=%d although one waits; it joins again when the loop goes on",
                self._member.group_id,
                self._member.member_id,
                self._max_poll_interval_ms,
            )
            self._cause, self._stalled = "its loop stood still", True
            self._member.on(Event.STALLED)
            return
        if grown := self._grown():
            self._begin_rebalance(grown)
            self._member.on(Event.REJOIN)
            return
        if (event := self._heartbeat()) is not None:
            self._rebalance(event)

    def _heartbeat(self) -> Event | None:
        """Send one heartbeat. → what the answer leads to, None for nothing."""
        try:
            event = self._play(heartbeat(self._member), self._heartbeat_timeout)
        except ClosedError:
            self._client.pause(0)  # raises if it is the client that was closed, not only a connection
            return None
        except KafkaError as error:
            if not error.retriable:
                raise
            log.info("group %s: heartbeat not answered: %s", self._member.group_id, error)
            return None
        if event is Event.LOST and self._assignment is not None:
            self._owner.lose(self._assignment)
        return event

    def _rebalance(self, event: Event) -> None:
        """Do what a heartbeat has been answered with."""
        self._begin_rebalance(
            "the group had removed it" if event is Event.LOST else "a member joined or left"
        )
        self._member.on(event)

    def _have_owner(self, call: Callable[[], None]) -> Event | None:
        """Have the owner's thread make *call*, and send heartbeats until it returns. → what they led to.

        Raises what *call* raises, and ClosedError once the client is closed.
        """
        done = self._rebalance_thread.call(call)
        found: Event | None = None
        while not done.done():
            self._client.pause(0)  # raises once the client is closed, whatever the call still waits for
            is_member = self._member.generation >= 0
            left = self._beat_at - time.monotonic() if is_member else self._heartbeat_interval
            with suppress(queue.Empty):
                self._bell.get(timeout=max(0.0, left))
            if is_member and time.monotonic() >= self._beat_at and not done.done():
                self._beat_at = time.monotonic() + self._heartbeat_interval
                found = self._heartbeat() or found
        done.result()
        return found

    def _notice_refusals(self) -> None:
        """Tell the owner which of its topics the brokers refuse, by the newest metadata."""
        self._owner.refuse(self._client.metadata.refused(self._member.topics))

    def _grown(self) -> str:
        """As the leader: what has changed about the topics since they were dealt; empty for nothing."""
        metadata = self._client.metadata
        changes = [
            f"topic {topic} has {count} partitions now, {dealt} before"
            for topic, dealt in (self._member.watched or {}).items()
            if (count := metadata.partition_count(topic)) and count != dealt
        ]
        return ", ".join(changes)

    def _begin_rebalance(self, cause: str) -> None:
        self._cause, self._began = cause, time.monotonic()

    def _release(self) -> None:
        self._pending = None
        self._have_owner(partial(self._owner.release, self._patience))
        self._member.on(Event.RELEASED)

    def _leave(self) -> None:
        self._pending = None
        # A loop that has stood still for max_poll_interval_ms has had its time.
        self._have_owner(partial(self._owner.release, 0.0 if self._stalled else self._patience))
        self._assignment = Assignment({})  # nothing is ours to commit any more
        self._assignment.active = False
        if not (self._closing and self._client.unreachable()):
            with suppress(KafkaError):
                self._play(leave(self._member, self._cause), _LEAVE_TIMEOUT)
        self._member.on(Event.RELEASED)

    def _fail(self, error: Exception) -> None:
        if self._closing and isinstance(error, ClosedError):
            return
        log.error("group %s: reading cannot go on: %s", self._member.group_id, error)
        if self._assignment is not None:
            self._owner.lose(self._assignment)
        self._owner.fail(error)
        if not self._taken.done():
            self._taken.set_exception(error)

    def _wait(self, seconds: float) -> None:
        if seconds > 0 and not self._closing:
            with suppress(queue.Empty):
                self._bell.get(timeout=seconds)

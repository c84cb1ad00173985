"""Hands partitions over between the group and the assignment handler, while heartbeats continue.

A second thread calls the assignment handler to revoke and assign partitions, and the group thread sends
heartbeats until that call has returned. So the session does not end while the program works on a message for
a long time, or while a rebalance listener runs. During a rebalance, both together may take
``rebalance_timeout_ms``.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.classic.heartbeat_schedule import HeartbeatSchedule
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.states import Event
from pyklient.consumer.group.membership_thread import MembershipThread
from pyklient.consumer.group.rebalance_thread import RebalanceThread
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError
from pyklient.net.dialogue_player import DialoguePlayer
from pyklient.topic_partition import TopicPartition

__all__ = ["Handover"]

log = logging.getLogger("pyklient.consumer")

_SHARE_IN_HAND = 0.9
"""The fraction of the rebalance time-out in which a loop may finish its message in hand. The remainder is for
a commit, the rebalance listener and the request to join."""


class Handover:
    """Tells the assignment handler which partitions *member* has got and which it must give back. Only the
    group thread, *group_thread*, uses this object."""

    def __init__(
        self,
        config: ConsumerConfig,
        member: Member,
        handler: AssignmentHandler,
        dialogues: DialoguePlayer,
        heartbeats: HeartbeatSchedule,
        group_thread: MembershipThread,
    ) -> None:
        self._member = member
        self._handler = handler
        self._dialogues = dialogues
        self._heartbeats = heartbeats
        self._group_thread = group_thread
        # A rebalance is heard of with a heartbeat, up to one interval after the group has begun to wait.
        rebalance = config.rebalance_timeout_ms / 1000
        self._revocation_timeout = max(rebalance / 2, (rebalance - heartbeats.interval) * _SHARE_IN_HAND)
        self._owned: frozenset[TopicPartition] = frozenset()
        self.pending: Collection[TopicPartition] | None = None
        """The partitions of this generation that are still to be assigned to the handler. None when the
        handler has got all of them."""
        self.must_rejoin = False
        """True if the member has given back partitions, and must join again so that other members get
        them."""
        self._noticed: Event | None = None
        """The event that a heartbeat has led to during the newest call of the handler, such as Event.LOST.
        None if the heartbeats showed no change."""
        self.thread = RebalanceThread(f"pyklient-rebalance-{config.group_id}", done=group_thread.wake)

    def begin(self) -> None:
        """Tell the handler that the member owns nothing, before the member joins for the first time."""
        self._revoke((), 0.0)

    def assign(self, partitions: Collection[TopicPartition]) -> Event | None:
        """Make the handler revoke the owned partitions that are not in *partitions*, and begin to read the
        new ones.

        Return the event that a heartbeat has led to meanwhile, or None. If the committed offsets cannot be
        fetched, the partitions stay ``pending``. With an incremental assignor, other members get the revoked
        partitions after all members have joined again. With any other assignor, no partitions are revoked
        here, because the member has given all of them back before it joined.
        """
        member, identity = self._member, self._member.identity
        self._handler.extend_lease(member.confirmed_until)
        if self._owned and not member.owned:
            # The group had removed the member, which then joined as a newcomer.
            self._handler.lost(self._owned)
            self._revoke(self._owned, 0.0)
        elif given_back := self._owned.difference(partitions):
            self.must_rejoin = True
            self._revoke(given_back, self._revocation_timeout, identity)
            if member.generation >= 0:
                # If assigning fails, the member joins without a claim to what it does not read any more.
                member.owned = self._owned
        new = [each for each in partitions if each not in self._owned]
        try:
            self._call(partial(self._handler.assigned, new, identity))
        except KafkaError as error:
            if not error.retriable:
                raise
            self._group_thread.problem = error
            log.info(
                "group %s: this member tries again to fetch the committed offsets, because of an error: %s",
                member.group_id,
                error,
            )
        else:
            self._owned, self.pending, self._group_thread.problem = frozenset(partitions), None, None
            if self._noticed is Event.LOST:
                self._handler.lost(self._owned)
            member.owned = self._owned if member.incremental and member.generation >= 0 else frozenset()
        return self._noticed

    def give_back(self) -> None:
        """Give partitions back before the member joins again.

        If the member may keep partitions meanwhile, give back only the partitions of topics to which it does
        not subscribe any more. Otherwise give back all partitions.
        """
        self.pending = None
        member = self._member
        if not (member.incremental and member.generation >= 0):
            self._revoke(self._owned, self._revocation_timeout)
        elif gone := frozenset(each for each in self._owned if each.topic not in member.topics):
            self._revoke(gone, self._revocation_timeout)
            member.owned = self._owned

    def give_all_back(self, *, at_once: bool) -> None:
        """Give all partitions back before the member leaves. If *at_once* is true, do not wait for loops to
        finish their messages."""
        self.pending = None
        self._revoke(self._owned, 0.0 if at_once else self._revocation_timeout)
        self._member.owned = frozenset()
        self._handler.left()

    def send_heartbeat(self) -> Event | None:
        """Send one heartbeat, and tell the handler if the group has removed the member. Return the event
        that follows from the response, such as Event.LOST, or None if nothing has changed."""
        event = self.event_after_sleep() or self._heartbeats.send() or self.event_after_sleep()
        if event is Event.LOST:
            self._handler.lost(self._owned)
        else:
            self._handler.extend_lease(self._member.confirmed_until)
        return event

    @contextmanager
    def keeping_lease(self) -> Iterator[None]:
        """While the member joins in the ``with`` block, let the streams hand out messages of the partitions
        that the member keeps.

        A member that joins sends no heartbeats: its group waits for it for up to ``rebalance_timeout_ms``. If
        the process is suspended meanwhile for longer than the session time-out, the streams hand out no more
        messages.
        """
        over = threading.Event()
        if self._owned:
            self.thread.call(partial(self._keep_lease, over))
        try:
            yield
        finally:
            over.set()
            # The group has made the member wait, which is not a suspension of its process. If the process was
            # suspended during the wait, the group rejects what the member then sends.
            self._heartbeats.postpone()

    def _keep_lease(self, over: threading.Event) -> None:
        """Extend the lease of the streams again and again, until *over* is set. This runs on the rebalance
        thread."""
        member = self._member
        session = member.session_timeout_ms / 1000
        latest = member.confirmed_until + member.rebalance_timeout_ms / 1000
        while not over.is_set():
            self._handler.keep_lease(min(time.monotonic() + session, latest))
            over.wait(min(self._heartbeats.interval, session / 3))

    def event_after_sleep(self) -> Event | None:
        """Return Event.LOST if the process was suspended for so long that the group has removed the member.
        Otherwise return None.

        If the group has removed the member, mark the member's partitions as lost. The member joins again with
        its old id, which the group may still know.
        """
        if not self._heartbeats.slept_too_long():
            return None
        self._handler.lost(self._owned)
        self._member.forget(ErrorCode.ILLEGAL_GENERATION)
        return Event.LOST

    def give_up(self) -> None:
        """Stop reading all partitions and do not wait for messages in hand, because the group has removed the
        member while it joined."""
        self._handler.lost(self._owned)
        self._revoke(self._owned, 0.0)

    def fail(self, error: Exception) -> None:
        """Make every loop raise *error*. When the rebalance thread has finished its present call, it tells
        the rebalance listener that all partitions are lost."""
        self._handler.fail(error)
        self.thread.call(self._handler.tell_all_lost)

    def _revoke(
        self,
        partitions: Collection[TopicPartition],
        timeout: float,
        identity: MemberIdentity | None = None,
    ) -> None:
        try:
            self._call(partial(self._handler.revoked, partitions, timeout, identity))
        finally:  # until then, a heartbeat may tell that they are lost
            self._owned = self._owned.difference(partitions)

    def _call(self, call: Callable[[], None]) -> None:
        """Make the rebalance thread call *call*, and send heartbeats from the calling thread until *call*
        returns.

        Raises the exception that *call* raises. Raises ClosedError if the client is closed meanwhile.
        """
        done = self.thread.call(call)
        self._noticed = None
        while not done.done():
            self._dialogues.check_open()  # whatever the call still waits for
            is_member = self._member.generation >= 0
            left = self._heartbeats.due_at - time.monotonic() if is_member else self._heartbeats.interval
            self._group_thread.wait(left)
            if is_member and time.monotonic() >= self._heartbeats.due_at and not done.done():
                self._noticed = self.send_heartbeat() or self._noticed
        done.result()

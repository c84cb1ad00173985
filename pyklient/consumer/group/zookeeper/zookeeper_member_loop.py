"""The thread of a member of a ZooKeeper group: it adds the member, rebalances and leaves, in the order that
the table in ``states.py`` gives.

A change in ZooKeeper wakes the thread. If several changes happen during a rebalance, one more rebalance
follows. While ZooKeeper cannot be reached, the member continues to read its partitions, as Scala's consumer
does. When ZooKeeper can be reached again and says that the session is over, the partitions are lost.
"""

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.membership_thread import MembershipThread
from pyklient.consumer.group.zookeeper.attempts import Attempts
from pyklient.consumer.group.zookeeper.former_session import FormerSession
from pyklient.consumer.group.zookeeper.partition_ownership import release
from pyklient.consumer.group.zookeeper.rebalance import (
    add_member,
    read_group,
    rebalance,
    renew_member,
    withdraw,
)
from pyklient.consumer.group.zookeeper.states import Event, State
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.counted import counted
from pyklient.errors import ClosedError, KafkaError, RegistryError
from pyklient.net.network_client import NetworkClient
from pyklient.registry.requests import RegistryDialogue
from pyklient.registry.session_event import SessionEvent
from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["ZooKeeperMemberLoop"]

log = logging.getLogger("pyklient.consumer")

_T = TypeVar("_T")

_TICK = 1.0
"""The longest time, in seconds, between two checks for changes that ZooKeeper does not report, such as topics
to which the brokers deny access."""
_WHILE_TAKEN = 0.2
_FOR_IN_HAND = 0.5
"""The fraction of the time from the first to the last attempt of a rebalance for which a member waits for its
messages in hand. The remaining time is for its commit, and for attempts of the members that wait for its
partitions."""


class ZooKeeperMemberLoop:
    """Lets *member* join, rebalance and leave the group, on the thread *thread*. Tells *handler* which
    partitions the member owns."""

    def __init__(
        self,
        client: NetworkClient,
        registry: ZooKeeper,
        config: ConsumerConfig,
        member: ZooKeeperMember,
        handler: AssignmentHandler,
        thread: MembershipThread,
    ) -> None:
        self._client = client
        self._registry = registry
        self._member = member
        self._handler = handler
        self._thread = thread
        self._session_timeout = config.zookeeper_session_timeout_ms / 1000
        self._timeout = max(self._session_timeout, config.zookeeper_connection_timeout_ms / 1000)
        self._attempts = Attempts(config)
        self._revocation_timeout = self._attempts.duration * _FOR_IN_HAND
        self._closing = False
        self._changed = False
        """True if the group in ZooKeeper has changed since this thread last read it."""
        self._expired = False
        self._renew = False
        """True if the node of the member must be written again, because its subscription has changed."""
        self._former = FormerSession(member, self._session_timeout)

    def close(self) -> None:
        """Make the thread leave the group and end. This method acquires no lock and never waits."""
        self._closing = True
        self._thread.wake()

    def changed(self) -> None:
        """Make the thread look at the group, because something in ZooKeeper has changed."""
        self._changed = True
        self._thread.wake()

    def subscription_changed(self) -> None:
        """Make the thread write the present subscription into the member's node, for the other members."""
        self._renew = True
        self._thread.wake()

    def session_changed(self, event: SessionEvent) -> None:
        """Make the thread react to *event*, a change of the ZooKeeper session. The session calls this on a
        thread of its own."""
        if event is SessionEvent.EXPIRED:
            self._expired = True
            self._handler.lost(tuple(self._member.owned))  # so that a revocation under way waits no longer
            self._thread.wake()
        elif event is SessionEvent.CONNECTED:
            self.changed()

    def run(self) -> None:
        """Run the step of the member's current state (see ``states``), again and again, until the member has
        left its group for good."""
        steps: dict[State, Callable[[], None]] = {
            State.OUTSIDE: self._add,
            State.REBALANCING: self._rebalance,
            State.WAITING: self._await_retry,
            State.STABLE: self._stay,
            State.IDLE: self._stay,
            State.LEAVING: self._leave,
        }
        try:
            while (state := self._member.state) is not State.CLOSED:
                if state is not State.LEAVING and self._closing:
                    self._member.on(Event.CLOSE)
                elif state not in (State.LEAVING, State.OUTSIDE) and self._expired:
                    self._lose_session()
                else:
                    steps[state]()
        except Exception as error:
            self._fail(error)
        self._handler.ended()

    def _play(self, dialogue: RegistryDialogue[_T]) -> _T:
        return self._registry.play(dialogue, self._timeout, self.changed, per_answer=True)

    def _add(self) -> None:
        """Create the node of the member. If a former session has the node, wait until that session ends."""
        member = self._member
        self._expired = False
        try:
            if self._play(add_member(member)):
                self._former.ended()
                self._begin_rebalance(Event.ADDED)
                return
        except ClosedError:
            raise
        except KafkaError as error:
            if not error.retriable or not self._thread.joined.done():
                raise
            log.warning(
                "group %s: member %s tries to join again, because of an error: %s",
                member.group_id,
                member.consumer_id,
                error,
            )
            self._wait(self._attempts.backoff)
            return
        self._former.seen()
        self._wait(_WHILE_TAKEN)

    def _begin_rebalance(self, event: Event) -> None:
        self._attempts.begin_round()
        self._member.on(event)

    def _rebalance(self) -> None:
        """Make one attempt to rebalance. If it fails, set the time of the next attempt, or give up after the
        last attempt of a round.

        Raise the error if another attempt cannot succeed, for example because of an access list. After a
        failure because of the content of a node, make another attempt, because somebody may repair the node.
        """
        self._changed = False
        self._attempts.begin()
        try:
            succeeded = self._attempt()
        except ClosedError:
            raise
        except KafkaError as error:
            if not error.retriable and not isinstance(error, RegistryError):
                raise
            log.info(
                "group %s: member %s could not rebalance (attempt number %d), because of an error: %s",
                self._member.group_id,
                self._member.consumer_id,
                self._attempts.count,
                error,
            )
            succeeded, self._attempts.failure = False, error
        if succeeded:
            self._member.on(Event.OWNED)
            if not self._thread.joined.done():
                self._thread.joined.set_result(None)
        elif self._expired or not self._attempts.over:
            self._attempts.pause()
            self._member.on(Event.FAILED)
        else:
            self._give_up()

    def _attempt(self) -> bool:
        """Rebalance once. Return False if other members still own partitions that are assigned to this
        member.

        Change nothing if no broker is registered, or if the member already owns exactly the partitions that
        are assigned to it.
        """
        member = self._member
        began = time.monotonic()
        group = self._play(read_group(member))
        session_id = self._registry.session_id
        if not group.has_brokers:
            log.warning(
                "group %s: no broker is registered at %s, so the member waits for a broker",
                member.group_id,
                self._registry,
            )
            return True
        assigned = group.assigned_to(member)
        if member.generation and member.owned == assigned and member.nodes == assigned.keys():
            return True
        self._give_back()
        if session_id is None:
            raise self._registry.connection_lost()
        result = self._play(rebalance(member))
        if result is None:
            return False
        member.begin_generation(session_id)
        self._handler.watch(frozenset(each.topic for each in result))
        log.info(
            "group %s has rebalanced: member %s got %s. The rebalance took %.2f s",
            member.group_id,
            member.consumer_id,
            counted(len(result), "partition"),
            time.monotonic() - began,
        )
        try:
            self._handler.assigned(
                sorted(result),
                member.identity,
                stream_numbers={each: thread.stream for each, thread in result.items()},
            )
        except KafkaError:
            self._play(release(member))
            raise
        member.owned = result
        return True

    def _give_back(self) -> None:
        """Stop reading the member's partitions, and commit.

        The caller deletes the owner nodes only afterwards, so that no other member reads these partitions
        before their offsets are committed.
        """
        try:
            self._handler.revoked(sorted(self._member.owned), self._revocation_timeout)
        finally:
            self._member.owned = {}

    def _give_up(self) -> None:
        """After all attempts of a round have failed, wait for a change of the group or for the next round.

        Raise RebalanceFailedError if no rebalance of the member has succeeded yet.
        """
        error = self._attempts.error(self._member)
        if not self._thread.joined.done():
            raise error from self._attempts.failure
        pause = self._attempts.pause()
        what = "its partitions as before" if self._member.owned else "nothing"
        log.error(
            "the rebalance has failed; the member reads %s and tries again in %.3g s. The error: %s",
            what,
            pause,
            error,
        )
        self._member.on(Event.GAVE_UP)

    def _await_retry(self) -> None:
        if (wait := self._attempts.wait) > 0:
            self._wait(wait)
        elif self._thread.joined.done() and self._registry.unreachable():
            self._wait(_TICK)
        else:
            self._member.on(Event.RETRY)

    def _stay(self) -> None:
        """Wait for a change of the group. Meanwhile commit, and check to which topics the brokers deny
        access."""
        connected = self._registry.unreachable() is None
        if self._renew and connected:
            self._write_subscription()
        elif self._changed and connected:
            self._begin_rebalance(Event.CHANGED)
        elif self._member.state is State.IDLE and connected and self._attempts.wait <= 0:
            self._begin_rebalance(Event.RETRY)
        else:
            topics = {each.topic for each in self._member.owned}
            self._handler.set_topic_errors(self._client.metadata.topic_errors(topics))
            self._handler.commit_if_due(time.monotonic())
            self._wait(min(_TICK, self._handler.next_commit_at - time.monotonic()))

    def _write_subscription(self) -> None:
        """Write the node of the member again. If ZooKeeper does not answer, or if another session has a node
        of the same name, try again later."""
        self._renew, self._changed = False, True
        try:
            if self._play(renew_member(self._member)):
                self._former.ended()
                return
            self._former.seen()
        except KafkaError as error:
            if not error.retriable:
                raise
        self._renew = True
        self._wait(self._attempts.backoff)

    def _lose_session(self) -> None:
        """Drop all partitions without a commit, because other members may read them already."""
        log.warning(
            "group %s: the session of member %s with ZooKeeper has expired, so the member loses its "
            "partitions and joins again",
            self._member.group_id,
            self._member.consumer_id,
        )
        lost = sorted(self._member.owned)
        self._handler.lost(lost)
        self._handler.revoked(lost, 0.0)
        self._member.owned = {}
        self._member.on(Event.EXPIRED)

    def _leave(self) -> None:
        """Stop reading, and commit. ZooKeeper deletes the member's nodes when the client closes its
        session."""
        self._give_back()
        self._handler.left()
        self._member.on(Event.LEFT)

    def _fail(self, error: Exception) -> None:
        if self._closing and isinstance(error, ClosedError):
            return
        log.error("group %s: this member has stopped because of an error: %s", self._member.group_id, error)
        self._handler.fail(error)
        self._handler.tell_all_lost()
        # A member that ZooKeeper never answered has no nodes, and would only wait for ZooKeeper once more.
        if self._member.state is not State.OUTSIDE or self._registry.session_id is not None:
            with suppress(Exception):  # the same unexpected failure may come again
                self._play(withdraw(self._member))
        if not self._thread.joined.done():
            self._thread.joined.set_exception(error)

    def _wait(self, seconds: float) -> None:
        if not self._closing:
            self._thread.wait(seconds)

"""Membership in a group that Kafka's brokers coordinate, by the classic protocol."""

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from pyklient.assignors.assignors_by_name import offered_assignors
from pyklient.config import ConsumerConfig
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.member_loop import MemberLoop
from pyklient.consumer.group.classic.states import State
from pyklient.consumer.group.membership_thread import MembershipThread
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import KafkaError
from pyklient.log_events import log_fields
from pyklient.net.connection_pool import Purpose
from pyklient.net.network_client import NetworkClient

__all__ = ["ClassicMembership"]

log = logging.getLogger("pyklient.consumer")

_TICK = 0.1
_LONG_WAIT = 10.0
"""The seconds after which the log says that a member still waits for its first partitions. The usual wait in
a new group is shorter: the coordinator waits three seconds for other members to join
(``group.initial.rebalance.delay.ms``)."""


class ClassicMembership:
    """The Membership for Kafka's classic group protocol. *coordinator* sends requests to the group
    coordinator."""

    def __init__(
        self, client: NetworkClient, config: ConsumerConfig, coordinator: GroupCoordinatorClient
    ) -> None:
        self._client = client
        self._member = Member(
            coordinator,
            config.group_instance_id,
            offered_assignors(config.partition_assignment_strategy),
            session_timeout_ms=config.session_timeout_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            rack=config.client_rack,
        )
        self._config = config
        self._loop: MemberLoop | None = None
        self._first_contact_timeout = config.default_api_timeout_ms / 1000
        self._zookeeper_timeout = config.zookeeper_connection_timeout_ms / 1000
        self._join_timeout = max(config.default_api_timeout_ms, config.rebalance_timeout_ms) / 1000
        self._thread = MembershipThread(f"pyklient-group-{config.group_id}")

    @property
    def identity(self) -> MemberIdentity:
        """The identity (generation, member id and instance id) under which offsets are committed now."""
        return self._member.identity

    def start(self, subscription: Subscription, handler: AssignmentHandler) -> None:
        """Subscribe, and return when the group has assigned the first partitions.

        The first request is made in the caller's thread, so that a wrong address raises an error soon. Raises
        KafkaTimeoutError if the member cannot join in time. With the option ``zookeeper``, this method first
        waits until the group has no members that ZooKeeper coordinates.
        """
        if (registry := self._client.registry) is not None:
            from pyklient.consumer.group.change_of_coordination.members_in_zookeeper import (
                wait_for_members_in_zookeeper,
            )

            wait_for_members_in_zookeeper(
                registry, self._member.group_id, self._first_contact_timeout, self._zookeeper_timeout
            )
        self._member.subscribe(subscription)
        self._client.refresh_metadata(subscription.asks_for, self._first_contact_timeout)
        self._loop = MemberLoop(self._client, self._config, self._member, handler, self._thread)
        self._loop.notice_topics()
        handler.watch(subscription.asks_for)
        self._loop.handover.thread.thread.start()
        self._thread.start(self._run)
        silent = min(_LONG_WAIT, self._join_timeout)
        joined = self._thread.joined_within(silent)
        if not joined and silent < self._join_timeout and self._thread.problem is None:
            log.warning(
                "group %s: this member has waited %.3g s for its partitions, and waits for at most %.3g s. "
                "Perhaps another member was killed. The group then waits for that member until its "
                "session_timeout_ms has passed",
                self._member.group_id,
                silent,
                self._join_timeout,
                extra=log_fields("join_delayed", group=self._member.group_id, seconds=silent),
            )
        self._thread.wait_until_joined(
            self._join_timeout,
            f"group {self._member.group_id}: this member could not join within {self._join_timeout:.3g} s; "
            "perhaps another member is slow to give its partitions back",
            waited=silent,
        )

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription of the member. The group then rebalances."""
        self._member.subscribe(subscription)
        self._thread.wake()

    def runs_here(self) -> bool:
        """Return True if the calling thread belongs to this membership, as in a call of a rebalance
        listener."""
        return self._thread.runs_here() or threading.current_thread() is self._rebalance_thread

    def leave(self, timeout: float) -> None:
        """Commit, leave the group and end the threads. Return within about *timeout* seconds."""
        if self._loop is None:
            return
        self._loop.close()
        deadline = time.monotonic() + timeout
        while self._thread.running and time.monotonic() < deadline:
            self._thread.join(_TICK)
            node_id = self._member.coordinator.node_id
            if self._member.state in (State.JOINING, State.SYNCING) and node_id is not None:
                # It may wait there until all other members have joined: cut that short.
                with suppress(KafkaError):
                    self._client.connection(node_id, Purpose.GROUP, _TICK).close()
        self._loop.handover.thread.end()

    def abandon(self, then: Callable[[], None]) -> bool:
        """Leave the group because the program no longer refers to the connector. Call *then* as the last step
        of the group thread.

        Return False if the group thread has ended already: *then* might never be called.
        """
        running = self._thread.call_at_end(then)
        if self._loop is not None:
            self._loop.close()
        return running

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the threads of this membership to end, except for the calling
        thread."""
        deadline = time.monotonic() + timeout
        self._thread.join(timeout)
        other = self._rebalance_thread
        if other is not None and other.is_alive() and other is not threading.current_thread():
            other.join(max(0.0, deadline - time.monotonic()))

    def _run(self) -> None:
        assert self._loop is not None
        self._loop.run()  # this object lives as long as its thread

    @property
    def _rebalance_thread(self) -> threading.Thread | None:
        return None if self._loop is None else self._loop.handover.thread.thread

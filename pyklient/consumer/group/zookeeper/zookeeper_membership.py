"""Membership in a group that its members coordinate through ZooKeeper, as Scala's consumer does."""

from collections.abc import Callable

from pyklient.assignors.assignors_by_name import parse_strategy
from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.change_of_coordination.members_in_kafka import wait_for_members_in_kafka
from pyklient.consumer.group.membership_thread import MembershipThread
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.group.zookeeper.fenced_offset_storage import FencedOffsetStorage
from pyklient.consumer.group.zookeeper.thread_ids import new_consumer_id
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.consumer.group.zookeeper.zookeeper_member_loop import ZooKeeperMemberLoop
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.net.network_client import NetworkClient
from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["ZooKeeperMembership"]


class ZooKeeperMembership:
    """A Membership in a group that its members coordinate through ZooKeeper.

    When the client closes *registry*, the session with ZooKeeper ends, and ZooKeeper deletes the member's
    nodes.
    """

    def __init__(
        self, client: NetworkClient, registry: ZooKeeper, config: ConsumerConfig, group_id: str
    ) -> None:
        (strategy,) = parse_strategy(config.partition_assignment_strategy, in_zookeeper=True)
        self._member = ZooKeeperMember(group_id, new_consumer_id(group_id, config.consumer_id), str(strategy))
        self._client = client
        self._registry = registry
        self._config = config
        self._loop: ZooKeeperMemberLoop | None = None
        attempts = config.rebalance_backoff_ms / 1000 * config.rebalance_max_retries
        self._other_members_timeout = config.default_api_timeout_ms / 1000
        self._join_timeout = config.default_api_timeout_ms / 1000 + attempts
        self._thread = MembershipThread(f"pyklient-zookeeper-group-{group_id}")

    @property
    def identity(self) -> MemberIdentity:
        """The identity of the member's present assignment. The client does not send it with its commits."""
        return self._member.identity

    def fenced(self, store: OffsetStorage) -> FencedOffsetStorage:
        """Return an offset storage that commits to *store* only while this member owns its partitions."""
        return FencedOffsetStorage(store, self._registry, self._member)

    def start(self, subscription: Subscription, handler: AssignmentHandler) -> None:
        """Subscribe, and return when the first rebalance has assigned partitions. Raise an error if the
        rebalance fails.

        First wait until the group has no members that Kafka coordinates.
        """
        wait_for_members_in_kafka(
            self._client, self._member.group_id, subscription, self._other_members_timeout
        )
        self._member.subscription = subscription
        self._loop = ZooKeeperMemberLoop(
            self._client, self._registry, self._config, self._member, handler, self._thread
        )
        self._registry.add_listener(self._loop.session_changed)
        self._thread.start(self._run)
        self._thread.wait_until_joined(
            self._join_timeout,
            f"group {self._member.group_id}: member {self._member.consumer_id} has not joined within "
            f"{self._join_timeout:.3g} s",
        )

    def subscribe(self, subscription: Subscription) -> None:
        """Replace the subscription of the member.

        The node of the member in ZooKeeper is written again, and the group rebalances.
        """
        self._member.subscription = subscription
        if self._loop is not None:
            self._loop.subscription_changed()

    def runs_here(self) -> bool:
        """Return True if the calling thread is a thread of this membership, for example while it calls a
        rebalance listener."""
        return self._thread.runs_here()

    def leave(self, timeout: float) -> None:
        """Commit, give all partitions back and end the thread. The session ends when the client closes."""
        if self._loop is not None:
            self._loop.close()
        self.join(timeout)

    def abandon(self, then: Callable[[], None]) -> bool:
        """Leave because the program no longer refers to the connector. Call *then* as the last step of the
        member's thread.

        Return False if the thread has ended already: *then* might never be called.
        """
        running = self._thread.call_at_end(then)
        if self._loop is not None:
            self._loop.close()
        return running

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the member's thread to end, unless the calling thread is that
        thread."""
        self._thread.join(timeout)

    def _run(self) -> None:
        assert self._loop is not None
        self._loop.run()  # this object lives as long as its thread

"""Chooses the membership of a client, which decides what the client owns, and its offset store."""

from typing import NamedTuple

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.classic.classic_membership import ClassicMembership
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.standalone_membership import StandaloneMembership
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.offsets.broker_zookeeper_offset_store import BrokerZooKeeperOffsetStore
from pyklient.consumer.offsets.dual_offset_store import DualOffsetStore
from pyklient.consumer.offsets.kafka_offset_store import KafkaOffsetStore
from pyklient.consumer.offsets.no_offset_store import NoOffsetStore
from pyklient.consumer.offsets.offset_store import OffsetStore
from pyklient.net.network_client import NetworkClient

__all__ = ["MembershipAndStore", "choose_coordination"]


class MembershipAndStore(NamedTuple):
    """The membership and the offset store of one client."""

    membership: Membership
    store: OffsetStore


def choose_coordination(client: NetworkClient, config: ConsumerConfig) -> MembershipAndStore:
    """Return the membership and the offset store that *config* asks for."""
    if config.group_id is None:
        return MembershipAndStore(StandaloneMembership(client, config), NoOffsetStore())
    coordinator = GroupCoordinatorClient(config.group_id)
    store = _offset_store(client, config, coordinator)
    if config.coordination == "kafka":
        return MembershipAndStore(ClassicMembership(client, config, coordinator), store)
    from pyklient.consumer.group.zookeeper.zookeeper_membership import ZooKeeperMembership

    assert client.registry is not None, "the options have been validated"
    membership = ZooKeeperMembership(client, client.registry, config, coordinator.group_id)
    return MembershipAndStore(membership, membership.fenced(store))


def _offset_store(
    client: NetworkClient, config: ConsumerConfig, coordinator: GroupCoordinatorClient
) -> OffsetStore:
    if config.dual_commit:
        return DualOffsetStore(
            KafkaOffsetStore(client, config, coordinator), _in_zookeeper(client, coordinator.group_id)
        )
    if config.offset_storage == "kafka":
        return KafkaOffsetStore(client, config, coordinator)
    return _in_zookeeper(client, coordinator.group_id)


def _in_zookeeper(client: NetworkClient, group_id: str) -> OffsetStore:
    if client.registry is None:
        return BrokerZooKeeperOffsetStore(client, group_id)
    from pyklient.consumer.offsets.zookeeper_offset_store import ZooKeeperOffsetStore

    return ZooKeeperOffsetStore(client.registry, group_id)

"""Chooses the membership and the offset storage of a client by its options."""

from typing import NamedTuple

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_storages.kafka_offset_storage import KafkaOffsetStorage
from pyklient.consumer.commit.offset_storages.no_offset_storage import NoOffsetStorage
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.commit.offset_storages.saved_positions import SavedPositions
from pyklient.consumer.group.classic.classic_membership import ClassicMembership
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.standalone_membership import StandaloneMembership
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.net.network_client import NetworkClient

__all__ = ["MembershipAndStore", "choose_coordination"]


class MembershipAndStore(NamedTuple):
    """The membership and the offset storage of one client."""

    membership: Membership
    store: OffsetStorage


def choose_coordination(client: NetworkClient, config: ConsumerConfig) -> MembershipAndStore:
    """Return the membership and the offset storage that the options in *config* require."""
    if config.group_id is None:
        return MembershipAndStore(StandaloneMembership(client, config), NoOffsetStorage())
    coordinator = GroupCoordinatorClient(config.group_id)
    store: OffsetStorage = (
        _offset_storage(client, config, coordinator)
        if config.offset_store is None
        else SavedPositions(config.offset_store, config.group_id)
    )
    if config.coordination == "kafka":
        return MembershipAndStore(ClassicMembership(client, config, coordinator), store)
    from pyklient.consumer.group.zookeeper.zookeeper_membership import ZooKeeperMembership

    assert client.registry is not None, "the options have been validated"
    membership = ZooKeeperMembership(client, client.registry, config, coordinator.group_id)
    # The epochs in an offset store fence a member whose session has ended.
    return MembershipAndStore(
        membership, store if isinstance(store, SavedPositions) else membership.fenced(store)
    )


def _offset_storage(
    client: NetworkClient, config: ConsumerConfig, coordinator: GroupCoordinatorClient
) -> OffsetStorage:
    if config.dual_commit:
        from pyklient.consumer.commit.offset_storages.dual_offset_storage import DualOffsetStorage

        return DualOffsetStorage(
            KafkaOffsetStorage(client, config, coordinator), _in_zookeeper(client, coordinator.group_id)
        )
    if config.offset_storage == "kafka":
        return KafkaOffsetStorage(client, config, coordinator)
    return _in_zookeeper(client, coordinator.group_id)


def _in_zookeeper(client: NetworkClient, group_id: str) -> OffsetStorage:
    if client.registry is None:
        from pyklient.consumer.commit.offset_storages.broker_zookeeper_offset_storage import (
            BrokerZooKeeperOffsetStorage,
        )

        return BrokerZooKeeperOffsetStorage(client, group_id)
    from pyklient.consumer.commit.offset_storages.zookeeper_offset_storage import ZooKeeperOffsetStorage

    return ZooKeeperOffsetStorage(client.registry, group_id)

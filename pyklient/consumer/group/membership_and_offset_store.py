"""Chooses the membership, which decides what a client owns, and the offset store, which keeps positions."""

from typing import NamedTuple

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.classic.classic_membership import ClassicMembership
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.standalone_membership import StandaloneMembership
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.offsets.kafka_offset_store import KafkaOffsetStore
from pyklient.consumer.offsets.no_offset_store import NoOffsetStore
from pyklient.consumer.offsets.offset_store import OffsetStore
from pyklient.net.network_client import NetworkClient

__all__ = ["Coordination", "choose_coordination"]


class Coordination(NamedTuple):
    """The membership and the offset store of one client."""

    membership: Membership
    store: OffsetStore


def choose_coordination(client: NetworkClient, config: ConsumerConfig) -> Coordination:
    """Return the membership and the offset store that *config* asks for."""
    if config.group_id is None:
        return Coordination(StandaloneMembership(client, config), NoOffsetStore())
    coordinator = GroupCoordinatorClient(config.group_id)
    return Coordination(
        ClassicMembership(client, config, coordinator), KafkaOffsetStore(client, config, coordinator)
    )

"""The choice of how partitions are shared and where positions are kept."""

from typing import NamedTuple

from pyklient.config import ConsumerConfig
from pyklient.consumer.coordinator import Coordinator
from pyklient.consumer.group.classic.membership import ClassicMembership
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.standalone import StandaloneMembership
from pyklient.consumer.offsets.kafka import KafkaOffsetStore
from pyklient.consumer.offsets.no_store import NoOffsetStore
from pyklient.consumer.offsets.offset_store import OffsetStore
from pyklient.net.client import NetworkClient

__all__ = ["Coordination", "choose_coordination"]


class Coordination(NamedTuple):
    """The membership and the offset store of one client."""

    membership: Membership
    store: OffsetStore


def choose_coordination(client: NetworkClient, config: ConsumerConfig) -> Coordination:
    """Return the membership and the offset store that *config* asks for."""
    if config.group_id is None:
        return Coordination(StandaloneMembership(client, config), NoOffsetStore())
    coordinator = Coordinator(config.group_id)
    return Coordination(
        ClassicMembership(client, config, coordinator), KafkaOffsetStore(client, config, coordinator)
    )

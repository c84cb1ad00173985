"""Offset stores on a real broker, and what they have stored, as kazoo sees it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.group.membership_and_offset_storage import choose_coordination
from pyklient.consumer.group.zookeeper.fenced_offset_storage import FencedOffsetStorage
from pyklient.net.network_client import NetworkClient
from tests.servers.kafka import KraftCluster
from tests.servers.zookeeper import connected, numbered_children
from tests.servers.zookeeper_kafka import ZooKeeperKafka

__all__ = ["KINDS", "open_store", "put_in_zookeeper", "stored_in_zookeeper"]

_IN_ZOOKEEPER: Final[Mapping[str, Any]] = {"offsets_storage": "zookeeper"}
_IN_BOTH: Final[Mapping[str, Any]] = {"offsets_storage": "kafka", "dual_commit_enabled": True}
_FROM_BOTH: Final[Mapping[str, Any]] = {"offsets_storage": "zookeeper", "dual_commit_enabled": True}

KINDS: Final[Mapping[str, tuple[bool, Mapping[str, Any]]]] = {
    "kafka": (False, {}),
    "zookeeper": (True, _IN_ZOOKEEPER),
    "zookeeper through a broker": (False, _IN_ZOOKEEPER),
    "kafka and zookeeper": (True, _IN_BOTH),
    "kafka and zookeeper through a broker": (False, _IN_BOTH),
    "zookeeper and kafka": (True, _FROM_BOTH),
}
"""For each kind of store, whether it needs the address of ZooKeeper, and its options."""


@contextmanager
def open_store(
    broker: ZooKeeperKafka | KraftCluster, kind: str, group: str, **options: Any
) -> Iterator[OffsetStorage]:
    """Return the store of *kind* that a connector of *group* would use to keep positions."""
    needs_address, chosen = KINDS[kind]
    address = {}
    if needs_address:
        assert isinstance(broker, ZooKeeperKafka)
        address["zookeeper"] = broker.zookeeper_connect
    given = {"bootstrap_servers": broker.bootstrap_servers, "group_id": group, **address, **chosen, **options}
    config = ConsumerConfig.from_options(given)
    client = NetworkClient(config)
    try:
        store = choose_coordination(client, config).store
        # There is no member whose session could be over.
        yield store.store if isinstance(store, FencedOffsetStorage) else store
    finally:
        client.close()


def stored_in_zookeeper(broker: ZooKeeperKafka, group: str, topic: str) -> dict[int, str]:
    """Return the content of each node with an offset of *group*."""
    with connected(broker.zookeeper_connect) as client:
        found = numbered_children(client, f"/consumers/{group}/offsets/{topic}")
        return {number: content.decode() for number, content in found.items()}


def put_in_zookeeper(broker: ZooKeeperKafka, group: str, topic: str, partition: int, content: str) -> None:
    """Write *content* into the node with an offset of *group*."""
    with connected(broker.zookeeper_connect) as client:
        path = f"/consumers/{group}/offsets/{topic}/{partition}"
        client.ensure_path(path)
        client.set(path, content.encode())

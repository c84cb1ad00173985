"""A cluster in ZooKeeper that a test has planted: the nodes of a reference broker and of its topics."""

import contextlib
import json
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pyklient import ConsumerConnector
from tests.consumer.feed import Feed, wait_for
from tests.servers.zookeeper import numbered_children

__all__ = ["PlantedCluster"]


class PlantedCluster:
    """The nodes below *address* (``host:port/chroot``), and the broker of *feed* that they name. A context
    manager."""

    def __init__(self, address: str, feed: Feed) -> None:
        self.address = address
        self.feed = feed
        self.nodes = KazooClient(address)

    def __enter__(self) -> Self:
        self.nodes.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.nodes.stop()
        self.nodes.close()

    def add_broker(self) -> None:
        """Create the node of the broker."""
        host, _, port = self.feed.bootstrap_servers.rpartition(":")
        content = {"version": 1, "host": host, "port": int(port), "jmx_port": -1, "timestamp": "1"}
        self.nodes.create("/brokers/ids/0", json.dumps(content).encode(), makepath=True)

    def topic(self, partitions: int = 1, *texts: str) -> str:
        """Create a topic with *texts* in its first partition. Return its name."""
        topic = self.feed.topic(partitions, *texts)
        self.nodes.create(f"/brokers/topics/{topic}", topic_content(partitions), makepath=True)
        return topic

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to *topic* until it has so many."""
        self.feed.grow(topic, partitions)
        self.nodes.set_async(f"/brokers/topics/{topic}", topic_content(partitions)).get(timeout=30)

    def owners(self, group: str, topic: str) -> dict[int, str]:
        """Return the owner of each partition."""
        found = numbered_children(self.nodes, f"/consumers/{group}/owners/{topic}")
        return {number: content.decode() for number, content in found.items()}

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offset of each partition."""
        found = numbered_children(self.nodes, f"/consumers/{group}/offsets/{topic}")
        return {number: int(content) for number, content in found.items()}

    def members(self, group: str) -> list[str]:
        """Return the ids of the members of *group*."""
        return sorted(self._children(f"/consumers/{group}/ids"))

    def wait_owned(self, group: str, topic: str, *owners: str) -> None:
        """Return when the partitions of *topic* have these owners, in this order."""
        wait_for(
            lambda: self.owners(group, topic) == dict(enumerate(f"{group}_{each}" for each in owners)),
            f"{owners}; now {self.owners(group, topic)}",
        )

    def connect(self, group: str, name: str | None, **options: Any) -> ConsumerConnector:
        """Return a member of *group*, whose consumer_id is *name*."""
        settings: dict[str, Any] = {
            "bootstrap_servers": self.feed.bootstrap_servers,
            "zookeeper": self.address,
            "coordination": "zookeeper",
            "group_id": group,
            "consumer_id": name,
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": 60_000,
            "fetch_max_wait_ms": 50,
            "rebalance_backoff_ms": 100,
            "rebalance_max_retries": 20,
            "zookeeper_session_timeout_ms": 2000,
            **options,
        }
        return ConsumerConnector(**settings)

    def _children(self, path: str) -> list[str]:
        with contextlib.suppress(NoNodeError):
            return self.nodes.get_children(path)
        return []


def topic_content(partitions: int) -> bytes:
    """Return the content of the node of a topic with so many partitions."""
    return json.dumps(
        {"version": 1, "partitions": {str(number): [0] for number in range(partitions)}}
    ).encode()

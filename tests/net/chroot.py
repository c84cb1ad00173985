"""A part of ZooKeeper that one test has for itself."""

from typing import Any

from kazoo.client import KazooClient

from pyklient.registry.broker_nodes import BrokerEndpoint, BrokerNode, broker_content
from tests.net.scripted import ScriptedBroker, config_for
from tests.servers.zookeeper import new_chroot

__all__ = ["Chroot"]


class Chroot:
    """A part of ZooKeeper that only one test uses, and in which it writes what brokers would write."""

    def __init__(self, hosts: str) -> None:
        address = new_chroot(hosts)
        self.path = address.removeprefix(hosts)
        self.hosts = hosts
        self.client = KazooClient(address)
        self.client.start()
        self.client.create("/brokers/topics", makepath=True)

    def add(self, broker: ScriptedBroker, version: int = 5) -> None:
        address = BrokerEndpoint("PLAINTEXT", "PLAINTEXT", broker.host, broker.port)
        node = BrokerNode(broker.node_id, (address,), version=version)
        self.write(f"/brokers/ids/{broker.node_id}", broker_content(node))

    def write(self, path: str, content: bytes) -> None:
        self.client.create(path, content, makepath=True)

    def remove(self, broker: ScriptedBroker) -> None:
        self.client.delete(f"/brokers/ids/{broker.node_id}")

    def config(self, hosts: str | None = None, **options: Any) -> Any:
        return config_for(zookeeper=f"{hosts or self.hosts}{self.path}", **options)

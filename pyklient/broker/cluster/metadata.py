"""The metadata that all nodes of a cluster share: nodes, topics, leaders and producer ids."""

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from pyklient.broker.cluster.producer_ids import ProducerIds
from pyklient.broker.cluster.topics import Topics
from pyklient.broker.config import BrokerConfig
from pyklient.broker.data_directory import DataDirectory
from pyklient.broker.registration.entries import TopicEntry
from pyklient.config.host_and_port import host_and_port

if TYPE_CHECKING:
    from pyklient.broker.registration.registration import Registration

__all__ = ["ClusterMetadata", "Endpoint"]


class Endpoint(NamedTuple):
    """A node of the cluster, and the address at which clients reach it."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """The address of the node in the form ``host:port``, as in a client's ``bootstrap_servers``."""
        return host_and_port(self.host, self.port)


class ClusterMetadata:
    """The metadata that all nodes of a cluster share, loaded from the data directory *data*.

    *config* has the default settings of topics. *nodes* are the cluster's nodes; there must be at least one.
    *cluster_id* is used for a new cluster, and is random by default.
    """

    def __init__(
        self,
        config: BrokerConfig,
        data: DataDirectory,
        nodes: Sequence[Endpoint],
        cluster_id: str | None = None,
    ) -> None:
        self.config = config
        self.nodes = {endpoint.node_id: endpoint for endpoint in sorted(nodes)}
        self._data = data
        saved = data.metadata
        self.cluster_id: str = saved.get("cluster_id") or cluster_id or _new_cluster_id()
        self.producer_ids = ProducerIds(saved.get("next_producer_id", 0))
        self.topics = Topics(config, list(self.nodes))
        self.topics.load(saved.get("topics", {}))
        self._saved_state = (-1, -1)
        self.registration: Registration | None = None
        """The object that writes the topics into ZooKeeper; None if the broker does not use ZooKeeper."""
        self.save()

    @property
    def controller(self) -> Endpoint:
        """The node that responses to clients name as the controller: the node with the lowest id."""
        return next(iter(self.nodes.values()))

    def save(self) -> None:
        """Write the metadata to the data directory if it has changed since it was last written."""
        state = (self.topics.revision, self.producer_ids.reserved)
        if state == self._saved_state:
            return
        self._data.save(
            {
                "cluster_id": self.cluster_id,
                "next_producer_id": self.producer_ids.reserved,
                "topics": self.topics.saved(),
            }
        )
        self._saved_state = state
        self.tell_registration()

    def tell_registration(self) -> None:
        """Pass the present topics to the registration, which writes them into ZooKeeper."""
        if self.registration is None:
            return
        self.registration.topics_changed(
            {
                topic.name: TopicEntry(
                    topic.topic_id,
                    topic.configs,
                    tuple((partition.leader_id, partition.leader_epoch) for partition in topic.partitions),
                )
                for topic in self.topics.all()
            }
        )


def _new_cluster_id() -> str:
    return urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")

"""Finds the brokers of a cluster in ZooKeeper, and notices when brokers or topics are added or removed."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from pyklient.errors import BrokerConnectionError, ClosedError, ForkError, KafkaError, NodeContentError
from pyklient.net.connection.transport import Endpoint
from pyklient.protocol.messages import MetadataResponse
from pyklient.registry import paths
from pyklient.registry.broker_nodes import BrokerNode, broker_ids, parse_broker
from pyklient.registry.cluster_nodes import parse_cluster_id, parse_controller
from pyklient.registry.requests import Children, Node, Read, RegistryDialogue, all_answers
from pyklient.registry.session_event import SessionEvent
from pyklient.registry.settings import ZooKeeperSettings
from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["RegisteredCluster", "ZooKeeperDiscovery", "read_cluster"]

log = logging.getLogger("pyklient")


@dataclass(frozen=True, slots=True)
class RegisteredCluster:
    """The state of a cluster as ZooKeeper stores it: the brokers to which a client can connect, the
    controller (-1: none) and the cluster id.

    ``unusable`` has a sentence for each broker to which the client cannot connect, and for each ZooKeeper
    node whose content cannot be parsed.
    """

    brokers: tuple[BrokerNode, ...]
    controller_id: int
    cluster_id: str | None
    unusable: tuple[str, ...] = ()


def read_cluster(security_protocol: str) -> RegistryDialogue[RegisteredCluster]:
    """Read the brokers, the controller and the cluster id from ZooKeeper and return them. Watch the brokers,
    the controller and the topics for changes.

    A broker is unusable if it has no address for *security_protocol*, or if its node cannot be parsed.
    """
    brokers, unusable = [], []
    registered = broker_ids((yield Children(paths.BROKER_IDS, watch=True)))
    controller: Node | None
    cluster: Node | None
    *nodes, controller, cluster, _ = yield from all_answers(
        [
            *(Read(paths.broker(broker_id), watch=True, may_come=False) for broker_id in registered),
            Read(paths.CONTROLLER, watch=True),
            Read(paths.CLUSTER_ID),
            Children(paths.TOPICS, watch=True),
        ]
    )
    for broker_id, node in zip(registered, nodes, strict=True):
        if node is None:
            continue  # it went meanwhile
        try:
            broker = parse_broker(broker_id, node.content)
        except NodeContentError as error:
            unusable.append(str(error))
            continue
        if broker.endpoint(security_protocol) is not None:
            brokers.append(broker)
        else:
            offered = ", ".join(sorted({each.security_protocol for each in broker.endpoints}))
            unusable.append(f"broker {broker_id} has no address for {security_protocol}, but for {offered}")
    try:
        controller_id = -1 if controller is None else parse_controller(controller.content)
        cluster_id = None if cluster is None else parse_cluster_id(cluster.content)
    except NodeContentError as error:  # brokers of Kafka 0.10 and later say both themselves
        unusable.append(str(error))
        controller_id, cluster_id = -1, None
    return RegisteredCluster(tuple(brokers), controller_id, cluster_id, tuple(unusable))


class _Knowledge(Enum):
    """The state of the list of brokers that a client reads from ZooKeeper."""

    CURRENT = "current"
    """No node has changed since the brokers were last read."""

    STALE = "stale"
    """The brokers have not been read yet, or a node has changed since they were last read."""

    FAILED = "failed"
    """The last attempt to read the brokers has failed."""


class ZooKeeperDiscovery:
    """The brokers that were registered in ZooKeeper when the client last read them.

    If ZooKeeper cannot be reached, the client continues with these brokers. *required* is true if the client
    has no bootstrap servers, and finds brokers only in ZooKeeper.
    """

    def __init__(self, settings: ZooKeeperSettings, security_protocol: str, *, required: bool) -> None:
        self.session = ZooKeeper(settings)
        self._security_protocol = security_protocol
        self._required = required
        self._timeout = settings.connection_timeout
        self._knowledge = _Knowledge.STALE
        self._cluster: RegisteredCluster | None = None
        self._listeners: tuple[Callable[[], None], ...] = ()
        self.session.add_listener(self._on_session_event)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call *listener* whenever brokers or topics were added or removed. The listener must do no more than
        wake another thread."""
        self._listeners = (*self._listeners, listener)

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses of the registered brokers, for the security protocol of the client."""
        found = []
        for broker in self._cluster.brokers if self._cluster is not None else ():
            address = broker.endpoint(self._security_protocol)
            if address is not None:
                found.append(Endpoint(broker.broker_id, address.host, address.port))
        return tuple(found)

    def look(self, timeout: float) -> None:
        """Read the registered brokers again if a node in ZooKeeper has changed since they were last read.

        If the brokers cannot be read, raises the error if the client has no other way to find a broker, and
        otherwise logs a warning. Raises BrokerConnectionError if none of the registered brokers can be used
        and the client has no bootstrap servers.
        """
        if not self._is_due():
            return
        self._knowledge = _Knowledge.CURRENT  # before the look: a change during the look counts
        try:
            self._cluster = self.session.play(
                read_cluster(self._security_protocol), min(timeout, self._timeout), self._on_change
            )
        except (ClosedError, ForkError):
            raise
        except KafkaError as error:
            self._knowledge = _Knowledge.FAILED
            if self._required and not self._has_brokers:
                raise
            log.warning("the list of brokers could not be read from ZooKeeper: %s", error)
            return
        for reason in self._cluster.unusable:
            log.warning("an entry in %s is ignored: %s", self.session, reason)
        if not self._cluster.brokers and self._required:
            self._knowledge = _Knowledge.STALE  # the next attempt looks again
            raise BrokerConnectionError(self._nobody(self._cluster))

    def complete(self, response: MetadataResponse) -> None:
        """Add to *response*, a Metadata response, the brokers, the controller and the cluster id that only
        ZooKeeper knows.

        The responses of brokers before Kafka 0.10 lack the controller and the cluster id, and contain no
        broker until there is a topic. Also, a broker may not know yet of another broker that has just been
        registered.
        """
        cluster = self._cluster
        if cluster is None or (self._knowledge is not _Knowledge.CURRENT and response.brokers):
            return  # what the broker says is newer
        if response.controller_id < 0:
            response.controller_id = cluster.controller_id
        response.cluster_id = response.cluster_id or cluster.cluster_id
        named = {broker.node_id for broker in response.brokers}
        racks = {broker.broker_id: broker.rack for broker in cluster.brokers}
        for endpoint in self.endpoints:
            if endpoint.node_id not in named:
                response.brokers.append(
                    MetadataResponse.MetadataResponseBroker(
                        node_id=endpoint.node_id,
                        host=endpoint.host,
                        port=endpoint.port,
                        rack=racks[endpoint.node_id],
                    )
                )

    @property
    def _has_brokers(self) -> bool:
        return self._cluster is not None and bool(self._cluster.brokers)

    def _is_due(self) -> bool:
        """Return True if the brokers should be read from ZooKeeper now.

        If the session with ZooKeeper is interrupted, reading would wait for a new session. In that case, the
        brokers are read only if the client knows no broker.
        """
        if self._knowledge is _Knowledge.CURRENT:
            return False
        if self.session.session_id is not None:
            return True
        return not self._has_brokers and (self._required or self._knowledge is _Knowledge.STALE)

    def _nobody(self, cluster: RegisteredCluster) -> str:
        if cluster.unusable:
            return (
                f"no broker that is registered in {self.session} can be used: {'; '.join(cluster.unusable)}"
            )
        return (
            f"no broker is registered in {self.session} below {self.session.chroot}{paths.BROKER_IDS}; check "
            "that the brokers run, and that the address names the chroot of their cluster"
        )

    def _on_session_event(self, event: SessionEvent) -> None:
        if event is SessionEvent.CONNECTED and self._knowledge is not _Knowledge.CURRENT:
            self._tell()

    def _on_change(self) -> None:
        if self._knowledge is _Knowledge.CURRENT:
            self._knowledge = _Knowledge.STALE
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()

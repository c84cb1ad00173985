"""Finds the first broker to which a client connects: a bootstrap server, or a broker that ZooKeeper knows."""

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyklient.config import ClientConfig
from pyklient.errors import BrokerConnectionError, KafkaError, RegistryConnectionError, UnreachableError
from pyklient.net.connection.transport import Endpoint
from pyklient.protocol.messages import MetadataResponse

if TYPE_CHECKING:
    from pyklient.net.zookeeper_discovery import ZooKeeperDiscovery
    from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["Bootstrap", "NobodyThereError"]

_FIRST_ID = -2


class NobodyThereError(BrokerConnectionError):
    """All bootstrap servers have refused connections for as long as ``bootstrap_refused_timeout_ms``
    allows."""

    retriable = False


class Bootstrap:
    """The addresses of the servers to which a client connects while it knows no broker of the cluster yet.

    Methods that need ZooKeeper do nothing if the client does not use ZooKeeper.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._config = config
        self._servers = tuple(
            Endpoint(_FIRST_ID - index, host, port) for index, (host, port) in enumerate(config.bootstrap)
        )
        self._discovery = _discovery(config, required=not self._servers)
        self._reached: set[tuple[str, int]] = set()
        self._nobody_since: float | None = None

    @property
    def registry(self) -> "ZooKeeper | None":
        """The session with ZooKeeper; None if the client does not use ZooKeeper."""
        return None if self._discovery is None else self._discovery.session

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The addresses of the bootstrap servers, and of the brokers that were found in ZooKeeper."""
        return self._servers if self._discovery is None else (*self._servers, *self._discovery.endpoints)

    def look(self, timeout: float) -> None:
        """Read the brokers from ZooKeeper again if they have changed there. Does nothing if the client does
        not use ZooKeeper.

        Raises NobodyThereError if ZooKeeper has refused connections for ``bootstrap_refused_timeout_ms``, or
        if its host name has had no address for that time.
        """
        if self._discovery is None:
            return
        limit = self._config.bootstrap_refused_timeout_ms / 1000
        is_limited = limit >= 0 and not self._reached
        try:
            self._discovery.look(min(timeout, limit) if is_limited else timeout)
        except RegistryConnectionError as error:
            if is_limited and isinstance(error.__cause__, (ConnectionRefusedError, socket.gaierror)):
                raise NobodyThereError(
                    f"{error}. The option bootstrap_refused_timeout_ms sets the time to wait"
                ) from error
            raise

    def complete(self, response: MetadataResponse) -> None:
        """Add to *response*, a Metadata response, the brokers, the controller and the cluster id that only
        ZooKeeper knows. Does nothing if the client does not use ZooKeeper."""
        if self._discovery is not None:
            self._discovery.complete(response)

    def on_cluster_change(self, listener: Callable[[], None]) -> None:
        """Call *listener* when ZooKeeper tells that brokers or topics were added or removed.

        *listener* must do no more than wake another thread.
        """
        if self._discovery is not None:
            self._discovery.add_listener(listener)

    def reached(self, endpoint: Endpoint) -> None:
        """Remember that a connection to *endpoint* was made. From then on, ``give_up_if_nobody_is_there``
        raises no error."""
        self._reached.add((endpoint.host, endpoint.port))

    def give_up_if_nobody_is_there(self, error: UnreachableError, began: float) -> None:
        """Handle *error*, the failure of an attempt to connect that began at *began* (``time.monotonic``).

        Raises NobodyThereError if no attempt has found a server for ``bootstrap_refused_timeout_ms``, and the
        client has never reached one.
        """
        if not error.nobody_there or self._reached:
            self._nobody_since = None
            return
        if self._nobody_since is None:
            self._nobody_since = began
        waited = time.monotonic() - self._nobody_since
        limit = self._config.bootstrap_refused_timeout_ms / 1000
        if 0 <= limit <= waited:
            raise NobodyThereError(
                f"No broker was found within {waited:.2g} s ({error.cause}); check the address, and that a "
                "broker runs there. The option bootstrap_refused_timeout_ms sets the time to wait"
            ) from error

    def with_origin(self, endpoint: Endpoint, error: KafkaError) -> KafkaError:
        """Return *error*. If the cluster has named the address of *endpoint*, and the client has never
        reached this address, add a hint that names ``advertised.listeners``."""
        address = (endpoint.host, endpoint.port)
        if endpoint.node_id < 0 or address in self._reached or address in self._config.bootstrap:
            return error
        who = "ZooKeeper" if endpoint in self.endpoints else "The bootstrap server answered, and"
        return BrokerConnectionError(
            f"{error}. {who} named this address for broker {endpoint.node_id}. Check "
            "advertised.listeners in the configuration of that broker: clients must be able to reach "
            "each host and port in it"
        )

    def close(self) -> None:
        """End the session with ZooKeeper, if there is one."""
        if self._discovery is not None:
            self._discovery.session.close()

    def abandon(self) -> None:
        """Close the socket of the session with ZooKeeper in a child process after a fork."""
        if self._discovery is not None:
            self._discovery.session.abandon()


def _discovery(config: ClientConfig, *, required: bool) -> "ZooKeeperDiscovery | None":
    if config.zookeeper is None:
        return None
    from pyklient.net.zookeeper_discovery import ZooKeeperDiscovery  # and kazoo, which few programs need
    from pyklient.registry.settings import ZooKeeperSettings

    return ZooKeeperDiscovery(ZooKeeperSettings.of(config), config.security_protocol, required=required)

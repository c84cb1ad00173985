"""The settings of a session with ZooKeeper: addresses, chroot, time-outs, user and TLS."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from pyklient.config import ClientConfig
from pyklient.config.zookeeper_address import ZooKeeperAddress, parse_zookeeper

__all__ = ["ZooKeeperSettings"]

SESSION_TIMEOUT: Final = 6.0


@dataclass(frozen=True, kw_only=True)
class ZooKeeperSettings:
    """The settings of a session with ZooKeeper. *address* is ``host:port[,host:port]/chroot``; times are in
    seconds.

    With *username*, the session is authenticated by ZooKeeper's scheme ``digest``. With *set_acl*, only this
    user may change the nodes that the session creates, and everyone may read them. *keystore* and
    *truststore* are PEM files.
    """

    address: str
    session_timeout: float = SESSION_TIMEOUT
    connection_timeout: float = SESSION_TIMEOUT
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    set_acl: bool = False
    use_tls: bool = False
    truststore: str | None = None
    keystore: str | None = None
    key_password: str | None = field(default=None, repr=False)
    check_host_name: bool = True

    @classmethod
    def of(cls, config: ClientConfig) -> "ZooKeeperSettings":
        """Return the ZooKeeper settings in the options of a client whose option ``zookeeper`` is set."""
        assert config.zookeeper is not None
        return cls(
            address=config.zookeeper,
            session_timeout=config.zookeeper_session_timeout_ms / 1000,
            connection_timeout=config.zookeeper_connection_timeout_ms / 1000,
            username=config.zookeeper_username,
            password=config.zookeeper_password,
            set_acl=config.zookeeper_set_acl,
            use_tls=config.zookeeper_ssl_client_enable,
            truststore=config.zookeeper_ssl_truststore_location,
            keystore=config.zookeeper_ssl_keystore_location,
            key_password=config.zookeeper_ssl_keystore_password,
            check_host_name=config.zookeeper_ssl_endpoint_identification_algorithm == "https",
        )

    @property
    def hosts(self) -> str:
        """The addresses without the chroot."""
        return self._parsed.hosts

    @property
    def chroot(self) -> str:
        """The path in ZooKeeper that contains all nodes of the session; empty for the root."""
        return self._parsed.chroot

    @cached_property
    def _parsed(self) -> ZooKeeperAddress:
        return parse_zookeeper(self.address)

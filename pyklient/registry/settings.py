"""What a session with ZooKeeper needs to know: addresses, chroot, time-outs, user and TLS."""

from dataclasses import dataclass, field
from typing import Final

from pyklient.config.zookeeper_address import parse_zookeeper

__all__ = ["ZooKeeperSettings"]

SESSION_TIMEOUT: Final = 6.0


@dataclass(frozen=True, kw_only=True)
class ZooKeeperSettings:
    """The settings of one session. *address* is ``host:port[,host:port]/chroot``; times are in seconds.

    With *username*, the session has the identity of ZooKeeper's scheme ``digest``. With *set_acl*, only this
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

    @property
    def hosts(self) -> str:
        """The addresses without the chroot."""
        return ",".join(f"{_bracketed(host)}:{port}" for host, port in parse_zookeeper(self.address).servers)

    @property
    def chroot(self) -> str:
        """The path below which all nodes are; empty for the root."""
        return parse_zookeeper(self.address).chroot


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host

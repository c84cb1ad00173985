"""The option ``zookeeper``: the addresses of ZooKeeper and a chroot, in the form of Kafka's
``zookeeper.connect``."""

import re
import reprlib
from dataclasses import dataclass
from typing import Final

from pyklient.config.host_and_port import host_and_port
from pyklient.errors import ConfigurationError

__all__ = ["ZooKeeperAddress", "parse_zookeeper"]

_EXAMPLE: Final = "'one:2181,two:2181/kafka'"
_SERVER: Final = re.compile(r"(?P<host>[^\s:/\[\]]+|\[[0-9a-fA-F:.]+\])(?::(?P<port>[0-9]{1,5}))?")


@dataclass(frozen=True, slots=True)
class ZooKeeperAddress:
    """The addresses of ZooKeeper as pairs of host and port, and the chroot of a Kafka cluster.

    The chroot is the path below which the cluster keeps its nodes in ZooKeeper; it is empty for the root.
    """

    servers: tuple[tuple[str, int], ...]
    chroot: str = ""

    @property
    def hosts(self) -> str:
        """The addresses without the chroot, as ``host:port[,host:port]``."""
        return ",".join(host_and_port(host, port) for host, port in self.servers)


def parse_zookeeper(address: str) -> ZooKeeperAddress:
    """Parse *address*, such as ``"one:2181,two/kafka"``: hosts, ports, and a chroot. The default port is
    2181.

    Raises ConfigurationError if *address* has another form.
    """
    hosts, slash, path = address.strip().partition("/")
    servers = []
    for text in (item.strip() for item in hosts.split(",")):
        match = _SERVER.fullmatch(text)
        port = int(match["port"] or 2181) if match is not None else 0
        if match is None or not 0 < port < 65536:
            raise ConfigurationError(
                f"zookeeper={address!r} is not understood: {text!r} is not host:port; pass for example "
                f"{_EXAMPLE}"
            )
        servers.append((_host(match["host"].strip("[]")), port))
    chroot = (slash + path).rstrip("/")
    if "//" in chroot or re.search(r"[\s,]|/\.{1,2}(/|$)", chroot):
        raise ConfigurationError(
            f"zookeeper={address!r} is not understood: the chroot {chroot!r} is not a path of ZooKeeper. "
            f"Write the chroot once, after the last address, as in {_EXAMPLE}"
        )
    return ZooKeeperAddress(tuple(servers), chroot)


def _host(name: str) -> str:
    """Return *name* if it can be the name of a host. Otherwise raise ConfigurationError, because the thread
    that connects to ZooKeeper would fail."""
    try:
        name.encode("idna")
    except UnicodeError as error:
        raise ConfigurationError(
            f"zookeeper: {reprlib.repr(name)} cannot be the name of a host ({error}); check its spelling"
        ) from None
    return name

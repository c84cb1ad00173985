"""The clusters of a mirror, as the user names them: bootstrap servers, or the options of a client."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from pyklient import argument_checks
from pyklient.config import DEFAULT_SERVERS, NOT_READ, ClientConfig

__all__ = ["Cluster", "cluster_name", "known_options", "options_of_cluster", "read_options"]

Cluster: TypeAlias = str | Mapping[str, Any]
"""A cluster: its bootstrap servers, or the options of a client for it."""


def options_of_cluster(cluster: Cluster, what: str) -> dict[str, Any]:
    """Return the options of the client for *cluster*. *what* names the cluster in the error message."""
    if isinstance(cluster, str):
        return {"bootstrap_servers": cluster}
    return dict(argument_checks.mapping(cluster, what, "{'bootstrap_servers': 'localhost:9092'}"))


def cluster_name(options: Mapping[str, Any]) -> str:
    """Return the name that messages use for the cluster of a client with *options*: the bootstrap servers or
    the ZooKeeper servers."""
    servers = options.get("bootstrap_servers") or options.get("zookeeper") or DEFAULT_SERVERS
    return servers if isinstance(servers, str) else ",".join(map(str, servers))


def known_options(config: type[ClientConfig], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of *options* that exist in *config*, the class of a client's options."""
    known = {item.name for item in fields(config)}
    return {name: value for name, value in options.items() if name in known}


def read_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of *options* that ``read`` accepts. Options that only a member of a group has are left
    out."""
    return {name: value for name, value in options.items() if name not in NOT_READ}

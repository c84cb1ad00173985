"""The clusters of a mirror, as the user names them: bootstrap servers, or the options of a client."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from pyklient import argument_checks
from pyklient.config import ClientConfig

__all__ = ["Cluster", "known_options", "options_of_cluster"]

Cluster: TypeAlias = str | Mapping[str, Any]
"""A cluster: its bootstrap servers, or the options of a client for it."""


def options_of_cluster(cluster: Cluster, what: str) -> dict[str, Any]:
    """Return the options of the client for *cluster*. *what* names the cluster in the error message."""
    if isinstance(cluster, str):
        return {"bootstrap_servers": cluster}
    return dict(argument_checks.mapping(cluster, what, "{'bootstrap_servers': 'localhost:9092'}"))


def known_options(config: type[ClientConfig], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of *options* that a client with *config* has."""
    known = {item.name for item in fields(config)}
    return {name: value for name, value in options.items() if name in known}

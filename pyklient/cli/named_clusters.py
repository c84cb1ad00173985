"""The options ``--from`` and ``--to`` of commands that use two clusters. Each takes addresses of brokers, or
a file of options."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pyklient.cli.cluster_options import ClusterOptions, options_of_file
from pyklient.cli.parameter_checks import checked, text
from pyklient.config import ClientConfig

__all__ = ["from_option", "options_of", "to_option"]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_CLUSTER: Final = "HOST:PORT,…|@FILE"

_CALL_TIMEOUT: Final = 60.0
"""The seconds that a call to a cluster may take. Commands that use two clusters run long, and have to survive
a restart of the brokers."""


def from_option(explained: str, *, repeatable: bool = False) -> Callable[[_Command], _Command]:
    """Add ``--from`` to a command, which gets it as ``source``, or as ``sources`` if it is *repeatable*.
    *explained* is the text of the help."""
    name = "sources" if repeatable else "source"
    return _cluster_option("--from", name, explained, multiple=repeatable)


def to_option(explained: str) -> Callable[[_Command], _Command]:
    """Add ``--to`` to a command, which gets it as ``target``. *explained* is the text of the help."""
    return _cluster_option("--to", "target", explained)


def _cluster_option(
    option: str, name: str, explained: str, *, multiple: bool = False
) -> Callable[[_Command], _Command]:
    return click.option(
        option,
        name,
        metavar=_CLUSTER,
        callback=checked(text),
        required=True,
        multiple=multiple,
        help=explained,
    )


def options_of(cluster: str, config: type[ClientConfig]) -> dict[str, Any]:
    """Return the options of a client for *cluster*. *cluster* consists of addresses of brokers, or of ``@``
    and the name of a file of options."""
    servers, from_file = (None, options_of_file(Path(cluster[1:]))) if cluster[0] == "@" else (cluster, {})
    return ClusterOptions(servers, {}, from_file, _CALL_TIMEOUT).options(config)

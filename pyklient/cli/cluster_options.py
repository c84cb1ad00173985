"""The command-line options that all commands share: the cluster, and the options of the client.

Their values come from ``-b``, ``-X name=value``, the ``--config`` file and the environment. If several of
these set an option, the first in this order is used. Passwords come only from the file or the environment,
because every process can read a command line.
"""

import functools
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from pyklient.cli.parameter_checks import checked, seconds, text
from pyklient.cli.standard_streams import complain
from pyklient.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from pyklient.config.dotted_names import typed, with_underscores
from pyklient.config.option_checks import check_option
from pyklient.config.option_declarations.common_options import unknown_option
from pyklient.config.properties_files import name_and_value, read_properties
from pyklient.errors import ConfigurationError, KafkaError

__all__ = ["ClusterOptions", "cluster_options", "naming_our_timeout", "options_of_file"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_SERVERS_VARIABLE = "PYKLIENT_BOOTSTRAP_SERVERS"
_OTHERWISE = f"{_SERVERS_VARIABLE}; else localhost:9092"
_TIMEOUTS = {"default_api_timeout_ms": 15_000, "max_block_ms": 15_000}
"""The commands' default time-outs, in milliseconds. They are shorter than the time-outs of a client in a
program, because a person waits for a command."""
_NOBODY_THERE = {"bootstrap_refused_timeout_ms": 3_000}
"""The time, in milliseconds, for which a command tries to connect if nothing listens on the ports of the
brokers. The user can set another time-out. A broker that is starting opens its port within this time."""
_LONGEST_TIMEOUT = 1_000_000
_WAITING_OPTION = re.compile(
    f"({'|'.join(re.escape(each.waiting_option) for each in (ClientConfig, ProducerConfig))}"
    "|bootstrap_refused_timeout_ms) sets the time to wait"
)
_USED_WITH = {
    "zookeeper_password": "zookeeper_username",
    "zookeeper_ssl_keystore_password": "zookeeper_ssl_keystore_location",
}
"""Maps the options with passwords for ZooKeeper to the options without which the passwords have no use."""
_EVERY_CONFIG = (AdminConfig, ProducerConfig, ConsumerConfig)
_BYTES_STAY = "keys and values are bytes here"
_OBJECTS = {
    "key_decoder": _BYTES_STAY,
    "key_encoder": _BYTES_STAY,
    "offset_store": "write a Python program, which stores its results and positions in one transaction",
    "partitioner": "use --partition of produce",
    "ssl_context": "use ssl_truststore_location and the other ssl_ options",
    "value_decoder": _BYTES_STAY,
    "value_encoder": _BYTES_STAY,
}
"""The options that only a Python program can set. The value of each is a hint for users of the command
line."""


@dataclass(frozen=True)
class ClusterOptions:
    """The client options that the user gave on the command line and in the ``--config`` file, as text."""

    bootstrap_servers: str | None
    from_line: dict[str, str]
    from_file: dict[str, str]
    timeout: float | None = None
    """The seconds that a call may take. None if ``--timeout`` is not on the command line."""

    @property
    def names_a_cluster(self) -> bool:
        """True if the command line or the ``--config`` file has the address of the cluster."""
        return _first(self._named()) is not None or self.zookeeper is not None

    @property
    def zookeeper(self) -> str | None:
        """The address of ZooKeeper, which knows the brokers of the cluster. None if the user gave no
        address."""
        return self.from_line.get("zookeeper", self.from_file.get("zookeeper"))

    @property
    def servers(self) -> str | None:
        """The bootstrap servers of the cluster; None if only ZooKeeper is known. Raises UsageError if the
        user gave an empty address."""
        if (named := _first(self._named())) is not None or self.zookeeper is not None:
            return named
        return _first({_SERVERS_VARIABLE: os.environ.get(_SERVERS_VARIABLE)}) or "localhost:9092"

    @property
    def where(self) -> str:
        """The text that names the cluster in the output of a command."""
        return self.servers or f"the brokers in ZooKeeper at {self.zookeeper}"

    def at(self, bootstrap_servers: str) -> "ClusterOptions":
        """Return a copy of these options for the cluster at *bootstrap_servers*."""
        return replace(self, bootstrap_servers=bootstrap_servers)

    def of_a_job(self) -> "ClusterOptions":
        """Return a copy of these options for a command that runs a Spark job.

        While the ports of all brokers are closed, such a command waits for its whole time-out, so that the
        job survives a restart of the brokers. Other commands give up sooner.
        """
        return replace(self, timeout=self.timeout or _TIMEOUTS["default_api_timeout_ms"] / 1000)

    def options(self, config: type[ClientConfig], **own: Any) -> dict[str, Any]:
        """Return the options for a client with the config class *config*. The options *own*, which the
        command sets itself, take precedence.

        Options that the client does not have are left out, because a command may use several clients, and
        several commands may share a ``--config`` file.
        """
        known = {item.name: item for item in fields(config)}
        texts = {name: text for name, text in (self.from_file | self.from_line).items() if name in known}
        if (servers := self.servers) is not None:
            texts["bootstrap_servers"] = servers
        texts = _secrets(known.values(), texts) | texts
        options = {name: typed(known[name], text) for name, text in texts.items()}
        return {name: value for name, value in self._timeouts().items() if name in known} | options | own

    def _timeouts(self) -> dict[str, int]:
        """Return the time-outs of the command: ``--timeout`` in milliseconds, or the default time-outs if
        ``--timeout`` is not given."""
        if self.timeout is not None:
            return dict.fromkeys(_TIMEOUTS, max(1, round(self.timeout * 1000)))
        if _TIMEOUTS.keys() & {*self.from_line, *self.from_file}:
            return _TIMEOUTS
        return _TIMEOUTS | _NOBODY_THERE

    def _named(self) -> dict[str, str | None]:
        name = "bootstrap_servers"
        return {
            "-b": self.bootstrap_servers,
            f"-X {name}": self.from_line.get(name),
            f"{name} of the --config file": self.from_file.get(name),
        }


def cluster_options(
    *configs: type[ClientConfig], otherwise: str = _OTHERWISE, timeout: bool = True
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Add the shared options to a command, which gets their values as the argument ``cluster``.

    *configs* are the configs of the clients that the command uses. *otherwise* names the default cluster in
    the help. ``timeout=False`` is for commands that have a ``--timeout`` of their own, or need none.
    """

    def decorate(command: Callable[..., _Result]) -> Callable[..., _Result]:
        connected = _with_connection(configs, otherwise, command)
        return _with_timeout(connected) if timeout else connected

    return decorate


def _with_timeout(command: Callable[..., _Result]) -> Callable[..., _Result]:
    @click.option(
        "--timeout",
        "call_timeout",
        metavar="SECONDS",
        type=click.FloatRange(0, _LONGEST_TIMEOUT, min_open=True),
        callback=checked(seconds),
        help="Longest time for a call to the cluster.  [15; 3 if the port is closed]",
    )
    @functools.wraps(command)
    def with_timeout(*args: Any, **others: Any) -> _Result:
        try:
            return command(*args, **others)
        except click.ClickException as error:
            if isinstance(error, click.UsageError):
                raise
            raise click.ClickException(naming_our_timeout(error.message)) from error
        except KafkaError as error:
            error.args = tuple(
                naming_our_timeout(each) if isinstance(each, str) else each for each in error.args
            )
            raise

    return with_timeout


def naming_our_timeout(message: str) -> str:
    """Return the error *message*. If it names the client option that sets the time to wait, the result names
    ``--timeout`` in its place."""
    return _WAITING_OPTION.sub("--timeout sets the time to wait", message)


def _with_connection(
    configs: Sequence[type[ClientConfig]], otherwise: str, command: Callable[..., _Result]
) -> Callable[..., _Result]:
    @click.option(
        "-b",
        "--bootstrap-servers",
        metavar="HOST:PORT,…",
        callback=checked(text),
        help=f"One or more brokers of the cluster.  [{otherwise}]",
    )
    @click.option(
        "--zookeeper",
        metavar="HOST:PORT,…/CHROOT",
        callback=checked(text),
        help="ZooKeeper of a cluster that uses it: the brokers are found there.",
    )
    @click.option(
        "--config",
        "config_file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File of client options, one name=value in a line, with dots or underscores. Passwords go here.",
    )
    @click.option(
        "-X",
        "pairs",
        metavar="NAME=VALUE",
        callback=checked(text),
        multiple=True,
        help="A client option. Repeatable.",
    )
    @functools.wraps(command)
    def with_cluster(
        *args: Any,
        bootstrap_servers: str | None,
        zookeeper: str | None,
        config_file: Path | None,
        pairs: tuple[str, ...],
        call_timeout: float | None = None,
        **others: Any,
    ) -> _Result:
        try:
            line = dict(_pair(pair, "-X") for pair in pairs)
            if zookeeper is not None:
                line["zookeeper"] = zookeeper
            from_line = with_underscores(line)
            _reject_secrets(from_line)
            from_file = options_of_file(config_file) if config_file else {}
            _reject_objects(from_line | from_file)
            _check_options(from_line)
            for name in _without_effect(line, configs):
                complain(f"-X {name} has no effect on this command")
            cluster = ClusterOptions(bootstrap_servers, from_line, from_file, call_timeout)
            return command(*args, cluster=cluster, **others)
        except click.UsageError as error:
            # The message names the command whose --help to read.
            error.ctx = error.ctx or click.get_current_context()
            raise

    return with_cluster


def _secrets(known: Iterable["Field[Any]"], given: Mapping[str, str]) -> dict[str, str]:
    """Return the passwords that are set in the environment, by option. Only options in *known* are looked
    up. A password is left out if the *given* options do not use it."""
    found = {
        item.name: os.environ.get(f"PYKLIENT_{item.name.upper()}")
        for item in known
        if item.metadata["secret"]
    }
    if not given.get("security_protocol", "").startswith("SASL"):
        found.pop("sasl_password", None)
    for secret, needed in _USED_WITH.items():
        if needed not in given:
            found.pop(secret, None)
    return {name: secret for name, secret in found.items() if secret is not None}


def _first(named: Mapping[str, str | None]) -> str | None:
    """Return the first address in *named* that is not None, or None if all are None. The keys of *named* are
    the options or variables that set the addresses. Raises UsageError if the first address is empty."""
    for where, servers in named.items():
        if servers is not None:
            if not servers.strip(" ,"):
                raise click.UsageError(f"{where} is empty: pass HOST:PORT of one or more brokers")
            return servers
    return None


def options_of_file(path: Path) -> dict[str, str]:
    """Return the options in the file at *path*. Raises ConfigurationError, which names the file, if an option
    is wrong."""
    properties = _read(path)
    try:
        options = with_underscores(properties)
        _check_options({name: value for name, value in options.items() if name not in _OBJECTS})
    except ConfigurationError as error:
        raise ConfigurationError(f"the file {path} cannot be used: {error}") from error
    return options


def _read(path: Path) -> dict[str, str]:
    try:
        return read_properties(path)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def _pair(text: str, where: str) -> tuple[str, str]:
    try:
        return name_and_value(text, where)
    except ConfigurationError as error:
        raise click.UsageError(str(error)) from error


def _reject_secrets(given: Mapping[str, str]) -> None:
    for item in {item.name: item for each in _EVERY_CONFIG for item in fields(each)}.values():
        if item.metadata["secret"] and item.name in given:
            raise click.UsageError(
                f"{item.name} must not be on a command line, which every process can read: "
                f"put it in a --config file or in PYKLIENT_{item.name.upper()}"
            )


def _check_options(given: Mapping[str, str]) -> None:
    """Raise ConfigurationError if *given* has an option that no client has, or a value that its option does
    not accept."""
    known = {item.name: item for config in _EVERY_CONFIG for item in fields(config)}
    for name, value in given.items():
        if name not in known:
            raise ConfigurationError(unknown_option(ClientConfig, name))
        check_option(known[name], typed(known[name], value))


def _without_effect(given: Iterable[str], configs: Sequence[type[ClientConfig]]) -> list[str]:
    used = {item.name for config in configs for item in fields(config)}
    return [name for name in given if name.replace(".", "_") not in used]


def _reject_objects(given: Iterable[str]) -> None:
    for name in given:
        if name in _OBJECTS:
            instead = _OBJECTS[name]
            raise click.UsageError(f"{name} cannot be given as text; {instead}")

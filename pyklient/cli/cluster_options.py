"""Which cluster a command talks to, and how: the options all commands share.

They come, the first that says something wins, from ``-b``, ``-X name=value``, the ``--config`` file, the
environment. Passwords only from the file or the environment: a command line is visible to every process.
"""

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import click

from pyklient.cli.parameter_checks import checked, seconds, text
from pyklient.cli.standard_streams import complain
from pyklient.config import AdminConfig, ClientConfig, ConsumerConfig, ProducerConfig
from pyklient.config.client_options import unknown_option
from pyklient.config.dotted_names import typed
from pyklient.config.option import check_option
from pyklient.errors import ConfigurationError

__all__ = ["Settings", "connection_options"]

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_SERVERS_VARIABLE = "PYKLIENT_BOOTSTRAP_SERVERS"
_OTHERWISE = f"{_SERVERS_VARIABLE}; else localhost:9092"
_PATIENCE = {"default_api_timeout_ms": 15_000, "max_block_ms": 15_000}
"""A person waits: less patience than the library has, unless something else is said."""
_NOBODY_THERE = {"bootstrap_refused_timeout_ms": 3_000}
"""A closed port is not waited for that long, unless something says how long to wait: a broker that is being
started opens its port by then."""
_LONGEST_TIMEOUT = 1_000_000
_EVERY_CONFIG = (AdminConfig, ProducerConfig, ConsumerConfig)
_BYTES_STAY = "keys and values are the bytes of the line"
_OBJECTS = {
    "key_decoder": _BYTES_STAY,
    "key_encoder": _BYTES_STAY,
    "partitioner": "produce has --partition",
    "ssl_context": "there is ssl_truststore_location, and the other ssl_ options",
    "value_decoder": _BYTES_STAY,
    "value_encoder": _BYTES_STAY,
}
"""Options that are objects of a Python program, with what there is here in their place."""


@dataclass(frozen=True)
class Settings:
    """What the command line, the file and the environment say about the cluster, still as text."""

    bootstrap_servers: str | None
    from_line: dict[str, str]
    from_file: dict[str, str]
    timeout: float | None = None
    """Seconds that a call may take, if the command line says so."""

    @property
    def names_a_cluster(self) -> bool:
        """Whether the command line, or the file that it names, says which cluster to talk to."""
        return _first(self._named()) is not None

    @property
    def servers(self) -> str:
        """The cluster to talk to. Raises UsageError where what names it is empty."""
        named = self._named() | {_SERVERS_VARIABLE: os.environ.get(_SERVERS_VARIABLE)}
        return _first(named) or "localhost:9092"

    def at(self, bootstrap_servers: str) -> "Settings":
        """The same for another cluster."""
        return replace(self, bootstrap_servers=bootstrap_servers)

    def of_a_job(self) -> "Settings":
        """The same for a job, whose tasks outlive a restart of the brokers: they wait for a closed port as
        long as for anything else."""
        return replace(self, timeout=self.timeout or _PATIENCE["default_api_timeout_ms"] / 1000)

    def options(self, config: type[ClientConfig], **own: Any) -> dict[str, Any]:
        """Options for a client with *config*: those here that it knows, under the command's *own* ones.

        A command uses several clients, and a file serves several commands: an option of another client is
        passed over.
        """
        known = {item.name: item for item in fields(config)}
        texts = {name: text for name, text in (self.from_file | self.from_line).items() if name in known}
        texts["bootstrap_servers"] = self.servers
        texts = _secrets(known.values(), texts.get("security_protocol", "")) | texts
        options = {name: typed(known[name], text) for name, text in texts.items()}
        return {name: value for name, value in self._patience().items() if name in known} | options | own

    def _patience(self) -> dict[str, int]:
        """How long to wait for the cluster, where no -X or file says so."""
        if self.timeout is not None:
            return dict.fromkeys(_PATIENCE, max(1, round(self.timeout * 1000)))
        if _PATIENCE.keys() & {*self.from_line, *self.from_file}:
            return _PATIENCE
        return _PATIENCE | _NOBODY_THERE

    def _named(self) -> dict[str, str | None]:
        name = "bootstrap_servers"
        return {
            "-b": self.bootstrap_servers,
            f"-X {name}": self.from_line.get(name),
            f"{name} of the --config file": self.from_file.get(name),
        }


def connection_options(
    *configs: type[ClientConfig], otherwise: str = _OTHERWISE, timeout: bool = True
) -> Callable[[Callable[..., _Result]], Callable[..., _Result]]:
    """Add the shared options to a command, which receives them as ``settings``.

    *configs* are those of the clients that it uses. The help says what the cluster is *otherwise*, if no
    option names one. ``timeout=False`` is for commands that have a ``--timeout`` of their own, or need none.
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
        help="Longest wait for the cluster to answer a call.  [15; 3 if nothing listens there]",
    )
    @functools.wraps(command)
    def with_timeout(*args: Any, **rest: Any) -> _Result:
        return command(*args, **rest)

    return with_timeout


def _with_connection(
    configs: Sequence[type[ClientConfig]], otherwise: str, command: Callable[..., _Result]
) -> Callable[..., _Result]:
    @click.option(
        "-b",
        "--bootstrap-servers",
        metavar="HOST:PORT,…",
        callback=checked(text),
        help=f"Some brokers of the cluster.  [{otherwise}]",
    )
    @click.option(
        "--config",
        "config_file",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="Client options as name=value lines, dots or underscores; the place for passwords.",
    )
    @click.option(
        "-X",
        "pairs",
        metavar="NAME=VALUE",
        callback=checked(text),
        multiple=True,
        help="One client option; repeatable.",
    )
    @functools.wraps(command)
    def with_settings(
        *args: Any,
        bootstrap_servers: str | None,
        config_file: Path | None,
        pairs: tuple[str, ...],
        call_timeout: float | None = None,
        **rest: Any,
    ) -> _Result:
        try:
            from_line = dict(_pair(pair, "-X") for pair in pairs)
            _refuse_secrets(from_line)
            from_file = _read(config_file) if config_file else {}
            _refuse_objects(from_line | from_file)
            for given in (from_file, from_line):
                _check_options(given)
            for name in _without_effect(from_line, configs):
                complain(f"-X {name} has no effect on this command")
            settings = Settings(bootstrap_servers, from_line, from_file, call_timeout)
            return command(*args, settings=settings, **rest)
        except click.UsageError as error:
            # So that it says whose --help there is to see.
            error.ctx = error.ctx or click.get_current_context()
            raise

    return with_settings


def _secrets(known: Iterable["Field[Any]"], security_protocol: str) -> dict[str, str]:
    """The passwords in the environment. That of SASL is there for whatever uses it: what does not, passes
    it over."""
    found = {
        item.name: os.environ.get(f"PYKLIENT_{item.name.upper()}")
        for item in known
        if item.metadata["secret"]
    }
    if not security_protocol.startswith("SASL"):
        found.pop("sasl_password", None)
    return {name: secret for name, secret in found.items() if secret is not None}


def _first(named: Mapping[str, str | None]) -> str | None:
    """The first value that is given. Raises UsageError where it is empty, as a variable in quotes may be."""
    for where, servers in named.items():
        if servers is not None:
            if not servers.strip(" ,"):
                raise click.UsageError(f"{where} is empty: it takes HOST:PORT of some brokers")
            return servers
    return None


def _read(path: Path) -> dict[str, str]:
    try:
        # Editors of some systems begin a file with a byte order mark.
        lines: Iterable[str] = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not UTF-8") from None
    stripped = (line.strip() for line in lines)
    return dict(_pair(line, str(path)) for line in stripped if line and line[0] not in "#!")


def _pair(text: str, where: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # Not the text itself: a line of a file may hold a password.
        raise click.UsageError(f"{where}: every option is name=value, e.g. security_protocol=SSL")
    return name.strip().replace(".", "_"), value.strip()


def _refuse_secrets(given: Mapping[str, str]) -> None:
    for item in {item.name: item for each in _EVERY_CONFIG for item in fields(each)}.values():
        if item.metadata["secret"] and item.name in given:
            raise click.UsageError(
                f"{item.name} does not belong on a command line, where every process can read it: "
                f"put it in a --config file or in PYKLIENT_{item.name.upper()}"
            )


def _check_options(given: Mapping[str, str]) -> None:
    """Refuse what is an option of no client, and a value that its option does not take, whichever clients the
    command uses. Raises ConfigurationError."""
    known = {item.name: item for config in _EVERY_CONFIG for item in fields(config)}
    for name, value in given.items():
        if name not in known:
            raise ConfigurationError(unknown_option(ClientConfig, name))
        check_option(known[name], typed(known[name], value))


def _without_effect(given: Iterable[str], configs: Sequence[type[ClientConfig]]) -> list[str]:
    used = {item.name for config in configs for item in fields(config)}
    return [name for name in given if name not in used]


def _refuse_objects(given: Iterable[str]) -> None:
    for name in given:
        if name in _OBJECTS:
            raise click.UsageError(f"{name} is made in Python and cannot be given as text; {_OBJECTS[name]}")

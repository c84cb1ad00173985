"""Translates properties, which are options under Kafka's names with dots, into options of pyklient.

Properties may come from files, from Spark's ``kafka.`` options, or as keyword arguments of the clients.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from functools import cache
from typing import Any, Final, TypeVar

from pyklient import config as configs
from pyklient.config import DEFAULT_SERVERS, ClientConfig
from pyklient.config.unknown_options import advice, nearest
from pyklient.errors import ConfigurationError

__all__ = [
    "by_option_name",
    "from_properties",
    "nearest_property",
    "typed",
    "unknown_properties",
    "with_underscores",
]

log = logging.getLogger("pyklient")

_Value = TypeVar("_Value")

_NUMBER: Final = re.compile("-?[0-9]{1,20}")
_JAAS: Final = re.compile(
    r"""\b(username|password)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))"""
)
_STORE_TYPES: Final = ("ssl.truststore.type", "ssl.keystore.type")
_IDLE: Final = frozenset(
    {
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "enable.metrics.push",
        "max.poll.records",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
    }
)
"""Properties of Java's clients that this package ignores, because they do not change what is read or
written."""


def typed(item: "Field[Any]", text: str) -> Any:
    """Convert *text* to the type of the option *item*. ``check_option`` later checks whether the option
    accepts the value."""
    lowered = text.lower()
    if "bool" in str(item.type) and lowered in ("true", "false"):
        return lowered == "true"
    if item.metadata["at_least"] is not None and _NUMBER.fullmatch(text):
        return int(text)
    if item.default is not MISSING and item.default is None and lowered == "none":
        return None
    return text


def by_option_name(
    config: type[ClientConfig], bootstrap_servers: str | Sequence[str], options: Mapping[str, object]
) -> dict[str, Any]:
    """Return the arguments of a client as options for ``config.from_options``.

    The names in *options* are those of pyklient (with underscores) or of Kafka (with dots), as in
    ``from_properties``. Raises ConfigurationError if an option is given under both names, or for a property
    that ``from_properties`` rejects.
    """
    given = {name: value for name, value in options.items() if "." not in name}
    if bootstrap_servers is not DEFAULT_SERVERS:
        given["bootstrap_servers"] = bootstrap_servers
    dotted = from_properties(config, {name: value for name, value in options.items() if "." in name})
    if twice := sorted(given.keys() & dotted.keys()):
        raise ConfigurationError(
            f"{twice[0]} is given twice, once with underscores and once with dots; remove one of the two"
        )
    return given | dotted


def from_properties(config: type[ClientConfig], properties: Mapping[str, object]) -> dict[str, Any]:
    """Return *properties* of Java's clients as options for ``config.from_options``.

    A value may be text, as in a file, or have the type of its option. The user and the password are taken
    from ``sasl.jaas.config``. Properties that only tune Java's clients, and options of other clients of
    pyklient, are ignored with a log message, because one file may serve several clients. An unknown property
    is kept in the result, and ``from_options`` then reports it. Raises ConfigurationError for a key store
    that is not a PEM file.
    """
    known = {item.name: item for item in fields(config)}
    options: dict[str, Any] = {}
    for name, value in with_underscores(properties).items():
        if name not in known and name in _of_some_client():
            log.info(
                "the property %s was ignored: it is not an option of this client", name.replace("_", ".")
            )
        else:
            item = known.get(name)
            options[name] = typed(item, value) if item is not None and isinstance(value, str) else value
    return options


def with_underscores(properties: Mapping[str, _Value]) -> dict[str, _Value | str]:
    """Return *properties*, which may be those of any client, under the names of their options in pyklient.

    The user and the password are taken from ``sasl.jaas.config``. Properties that only tune Java's clients
    are left out, with a log message. Raises ConfigurationError for a key store that is not a PEM file.
    """
    options: dict[str, _Value | str] = {}
    for name, value in properties.items():
        if name == "sasl.jaas.config":
            options |= _from_jaas(str(value))
        elif name in _STORE_TYPES:
            _reject_java_store(name, str(value))
        elif name in _IDLE:
            log.info("the property %s was ignored: it has no effect on this client", name)
        else:
            options[name.replace(".", "_")] = value
    return options


def unknown_properties(names: Iterable[str]) -> list[str]:
    """Return those of the dotted *names* that are unknown: neither pyklient nor Java's clients have such a
    property, and pyklient has no hint what to use instead."""
    elsewhere = {"sasl.jaas.config", *_STORE_TYPES, *_IDLE}
    plain = {name: name.replace(".", "_") for name in names if name not in elsewhere}
    return [name for name, option in plain.items() if option not in _of_some_client() and not advice(option)]


def nearest_property(name: str) -> str | None:
    """Return the property whose name is most similar to *name*; None if no name is similar."""
    near = nearest(name.replace(".", "_"), _of_some_client())
    return None if near is None else near.replace("_", ".")


@cache
def _of_some_client() -> frozenset[str]:
    """Return the names of all options of producers and consumers."""
    both = configs.ProducerConfig, configs.ConsumerConfig
    return frozenset(item.name for each in both for item in fields(each))


def _from_jaas(text: str) -> dict[str, str]:
    found = {
        name: re.sub(r"\\(.)", r"\1", double or single or bare)
        for name, double, single, bare in _JAAS.findall(text)
    }
    if found.keys() != {"username", "password"}:
        raise ConfigurationError(
            "sasl.jaas.config has no user and password for PLAIN or SCRAM (this message hides its text, "
            """which may hold a password); write it as '…LoginModule required username="…" password="…";'"""
        )
    return {f"sasl_{name}": value for name, value in found.items()}


def _reject_java_store(name: str, text: str) -> None:
    if text.upper() != "PEM":
        raise ConfigurationError(
            f"{name}={text} is not supported; only PEM files are supported. Convert a Java key store with "
            f"keytool -exportcert -rfc, and a private key with openssl pkcs12, and set {name}=PEM"
        )

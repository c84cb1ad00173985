"""The options of ``format("pyklient")``, each declared once, by the names of Spark's own Kafka source.

Options reach a data source as text, their names in lower case. Those that begin with ``kafka.`` are Kafka's
own and go to pyklient's client.
"""

import difflib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.spark import option_values as values

__all__ = ["OPTIONS", "Given", "SparkOption", "Use", "given_options"]

log = logging.getLogger("pyklient.spark")


class Use(StrEnum):
    """What an option is for."""

    BATCH = "batch"
    STREAM = "stream"
    SINK = "sink"


@dataclass(frozen=True)
class SparkOption:
    """One option: who takes it, the default as the documentation shows it, how its text is read."""

    name: str
    uses: frozenset[Use]
    default: str
    parse: Callable[[str], Any]
    meaning: str


_BATCH: Final = frozenset({Use.BATCH})
_STREAM: Final = frozenset({Use.STREAM})
_SOURCE: Final = _BATCH | _STREAM

OPTIONS: Final = (
    SparkOption("subscribe", _SOURCE, "", values.topics, "topics to read, with commas between them"),
    SparkOption("startingOffsets", _SOURCE, "batch: earliest; stream: latest", values.ends, "where to begin"),
    SparkOption("endingOffsets", _BATCH, "latest", values.ends, "where to end"),
)
"""Every option but those of ``kafka.``"""

_BY_NAME: Final = {option.name.lower(): option for option in OPTIONS}


@dataclass(frozen=True)
class Given:
    """Options as a query gave them: values by name, and the properties of ``kafka.`` without that prefix."""

    values: Mapping[str, Any]
    kafka: Mapping[str, str]


def given_options(options: Mapping[str, str], use: Use) -> Given:
    """*options* of a query, checked one by one. Raises ConfigurationError for one that is unknown, with the
    nearest name, or that does not hold what it takes; one of another *use* is passed over with a warning."""
    found: dict[str, Any] = {}
    kafka: dict[str, str] = {}
    for key, text in options.items():
        name = key.lower()
        if name.startswith("kafka."):
            kafka[name.removeprefix("kafka.")] = text
            continue
        option = _BY_NAME.get(name)
        if option is None:
            raise ConfigurationError(_unknown(key))
        if use not in option.uses:
            log.warning(
                "option %s is for %s; it changes nothing here", option.name, " and ".join(option.uses)
            )
            continue
        try:
            found[option.name] = option.parse(text)
        except ValueError as error:
            raise ConfigurationError(
                f"option {option.name}={text!r} is not understood: it takes {error}"
            ) from None
    return Given(found, kafka)


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [*_BY_NAME, *(f"kafka.{each}" for each in _BY_NAME)], n=1)
    beginning = f"option {name!r} is unknown to format('pyklient')"
    return f"{beginning}; did you mean {_BY_NAME[near[0]].name!r}?" if near else beginning

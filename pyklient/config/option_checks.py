"""The function with which the configs declare their options, and the checks of the values of options."""

from collections.abc import Callable
from dataclasses import Field, field
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.serialization import as_encoder

__all__ = ["INT32_MAX", "INT64_MAX", "MIB", "check_option", "option"]

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1
MIB: Final = 1024 * 1024


_CHOICES_ELSEWHERE: Final = {
    "beginning": "earliest",
    "smallest": "earliest",
    "end": "latest",
    "largest": "latest",
}
"""Values that options have in the Scala consumer and in librdkafka, and the corresponding values in
pyklient."""


def option(
    default: Any,
    doc: str,
    *,
    at_least: int | None = None,
    at_most: int = INT32_MAX,
    choices: tuple[Any, ...] | None = None,
    also: tuple[str, Callable[[str], object]] | None = None,
    secret: bool = False,
    kafka_default: str | None = None,
) -> Any:
    """Return a dataclass field that declares an option with the description *doc*.

    If *at_least* is given, the option accepts whole numbers from *at_least* to *at_most*. If *choices* is
    given, it accepts these values. *also* describes texts that the option accepts besides *choices*. It is a
    pair: an example, and a function that returns None for every other text. The value of a *secret* option is
    left out of the config's repr. *kafka_default* is Kafka's default for the option, if it differs from
    *default*.
    """
    metadata = {
        "doc": doc,
        "at_least": at_least,
        "at_most": at_most,
        "choices": choices,
        "also": also,
        "secret": secret,
        "kafka_default": kafka_default,
    }
    return field(default=default, metadata=metadata, repr=not secret)


def check_option(item: "Field[Any]", value: Any) -> Any:
    """Return *value* if the option *item* accepts it. Otherwise raise a ConfigurationError that says what the
    option accepts."""
    facts = item.metadata
    if facts["choices"] is not None:
        also = facts["also"]
        if also is not None and isinstance(value, str) and also[1](value) is not None:
            return value
        if isinstance(value, bool) or value not in facts["choices"]:
            choices = facts["choices"] if also is None else (*facts["choices"], also[0])
            shown = ", ".join(repr(choice) for choice in choices)
            meant = _CHOICES_ELSEWHERE.get(value) if isinstance(value, str) else None
            hint = f"; did you mean {meant!r}?" if meant is not None and meant in facts["choices"] else ""
            raise ConfigurationError(f"{item.name}={_shown(item, value)} is not one of {shown}{hint}")
    elif facts["at_least"] is not None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{item.name} takes a whole number, not {_shown(item, value)}")
        if not facts["at_least"] <= value <= facts["at_most"]:
            raise ConfigurationError(
                f"{item.name}={value} is out of range; choose a number from {facts['at_least']} to "
                f"{facts['at_most']}"
            )
    elif item.name.endswith("_encoder"):
        as_encoder(value, item.name)
    else:
        _check_type(item, value)
    return value


def _check_type(item: "Field[Any]", value: Any) -> None:
    """Raise ConfigurationError if *value* has the wrong type for the option *item*. Only options that need
    text, a bool or a TLS context are checked.

    None is accepted if it is the option's default.
    """
    wanted: type
    if item.type in (str, str | None):
        wanted, words = str, "text"
    elif item.type in (bool, bool | None):
        wanted, words = bool, "True or False"
    elif item.name == "ssl_context":
        import ssl  # which takes time to load

        wanted, words = ssl.SSLContext, "an ssl.SSLContext"
    else:
        return
    if not isinstance(value, wanted) and not (value is None and item.default is None):
        raise ConfigurationError(f"{item.name} takes {words}, not {_shown(item, value)}")


def _shown(item: "Field[Any]", value: Any) -> str:
    return "<hidden>" if item.metadata["secret"] else repr(value)

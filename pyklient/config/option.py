"""Declare one option: default, range, choices and description, once. Check a value against them."""

import ssl
from dataclasses import Field, field
from typing import Any, Final

from pyklient.errors import ConfigurationError
from pyklient.serialization import as_encoder

__all__ = ["INT32_MAX", "MIB", "check_option", "option"]

INT32_MAX: Final = 2**31 - 1
MIB: Final = 1024 * 1024


def option(
    default: Any,
    doc: str,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    choices: tuple[Any, ...] | None = None,
    secret: bool = False,
) -> Any:
    """One option as a dataclass field, with what is needed to check and to document it."""
    metadata = {"doc": doc, "at_least": at_least, "at_most": at_most, "choices": choices, "secret": secret}
    return field(default=default, metadata=metadata, repr=not secret)


def check_option(item: "Field[Any]", value: Any) -> Any:
    """*value* if it fits the option *item*; a ConfigurationError that says what would."""
    facts = item.metadata
    if facts["choices"] is not None:
        if isinstance(value, bool) or value not in facts["choices"]:
            shown = ", ".join(repr(choice) for choice in facts["choices"])
            raise ConfigurationError(f"{item.name}={_shown(item, value)} is not one of {shown}")
    elif facts["at_least"] is not None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ConfigurationError(f"{item.name} takes a whole number, not {_shown(item, value)}")
        if not facts["at_least"] <= value <= facts["at_most"]:
            raise ConfigurationError(
                f"{item.name}={value} is out of range: {facts['at_least']} to {facts['at_most']}"
            )
    elif item.name.endswith("_encoder"):
        as_encoder(value, item.name)
    else:
        _check_type(item, value)
    return value


def _check_type(item: "Field[Any]", value: Any) -> None:
    """Text, flags and a TLS context, None where the option has None."""
    wanted: type
    if item.type in (str, str | None):
        wanted, words = str, "text"
    elif item.type in (bool, bool | None):
        wanted, words = bool, "True or False"
    elif item.type == ssl.SSLContext | None:
        wanted, words = ssl.SSLContext, "an ssl.SSLContext"
    else:
        return
    if not isinstance(value, wanted) and not (value is None and item.default is None):
        raise ConfigurationError(f"{item.name} takes {words}, not {_shown(item, value)}")


def _shown(item: "Field[Any]", value: Any) -> str:
    return "<hidden>" if item.metadata["secret"] else repr(value)

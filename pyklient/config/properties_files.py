"""Reads properties from a file: one ``name=value`` in a line."""

import os
from collections.abc import Mapping
from typing import TypeAlias

from pyklient import argument_checks
from pyklient.errors import ConfigurationError

__all__ = ["Properties", "name_and_value", "properties_or_file", "read_properties"]

Properties: TypeAlias = Mapping[str, object] | str | os.PathLike[str]
"""Properties by their names, or the path of a file that has them."""


def properties_or_file(given: Properties) -> Mapping[str, object]:
    """Return *given* if it is a mapping, and the properties of the file if it is a path. Raises TypeError if
    it is neither."""
    if isinstance(given, str | os.PathLike):
        return read_properties(given)
    return argument_checks.mapping(given, "properties", "{'group.id': 'billing'}, or the path of a file")


def read_properties(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the properties in the file at *path*.

    Empty lines, and lines that begin with ``#`` or ``!``, are left out. Unlike in Java, a backslash has no
    meaning. Raises ConfigurationError if the file cannot be read, or if any other line is not ``name=value``.
    """
    try:
        # Some editors begin a file with a byte order mark.
        with open(path, encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
    except UnicodeDecodeError:
        raise ConfigurationError(f"the file {os.fspath(path)} is not UTF-8") from None
    except OSError as error:
        raise ConfigurationError(f"the file {os.fspath(path)} cannot be read: {error.strerror}") from error
    stripped = (line.strip() for line in lines)
    return dict(name_and_value(line, os.fspath(path)) for line in stripped if line and line[0] not in "#!")


def name_and_value(text: str, where: str) -> tuple[str, str]:
    """Return the name and the value in *text*, which is ``name=value``. Raises ConfigurationError, whose
    message begins with *where*, for any other text."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        # The text is not shown, because a line of a file may contain a password.
        raise ConfigurationError(f"{where}: each option must be name=value, such as security_protocol=SSL")
    return name.strip(), value.strip()

"""Finds the field that makes it impossible to encode a request, a response or another message of the
protocol."""

import reprlib
import struct
from typing import Final

from pyklient.protocol.field_encoding import write_field
from pyklient.protocol.message_fields import Struct
from pyklient.protocol.primitives import Writer

__all__ = ["ENCODING_ERRORS", "find_unencodable"]

ENCODING_ERRORS: Final = (struct.error, TypeError, ValueError, AttributeError, OverflowError)
"""The errors that an encoder raises for a value of the wrong type or range."""


def find_unencodable(cls: type[Struct], version: int, flexible: bool, value: object) -> str:
    """Return a text that has the path of the field of *value* that cannot be encoded, and the error. *value*
    is an object of the structure *cls*, whose encoding in *version* (with compact lengths and tagged fields
    if *flexible* is true) has failed."""
    for field in cls.declared:
        if not field.in_version(version):
            continue
        item = getattr(value, field.name, None)
        try:
            write_field(Writer(), field, item, version, flexible)
        except ENCODING_ERRORS as error:
            if isinstance(field.kind, type) and isinstance(item, list):
                inner = (find_unencodable(field.kind, version, flexible, entry) for entry in item)
                return next(
                    (f"{field.name}[{index}].{found}" for index, found in enumerate(inner) if found),
                    f"{field.name}: {error}",
                )
            shown = "" if field.secret else f"={reprlib.repr(item)}"
            return f"{field.name}{shown}: {error}"
    return ""

"""Encoders and decoders of a message by version, and what is wrong with a value that has no bytes."""

import reprlib
import struct
from collections.abc import Callable
from typing import Final, TypeVar

from pyklient.protocol.declared import Struct
from pyklient.protocol.encoding import field_encoder
from pyklient.protocol.primitives import Writer

__all__ = ["UNENCODABLE", "ByVersion", "culprit"]

_Function = TypeVar("_Function")

UNENCODABLE: Final = (struct.error, TypeError, ValueError, AttributeError, OverflowError)
"""What a value of the wrong type or range raises on its way to bytes."""


class ByVersion(dict[int, _Function]):
    """One function per version, made when it is first asked for. Most versions of most messages never are.

    Threads that ask for the same one at once may each make it: one of them is kept.
    """

    def __init__(self, make: Callable[[int], _Function]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, version: int) -> _Function:
        function = self[version] = self._make(version)
        return function


def culprit(cls: type[Struct], version: int, flexible: bool, value: object) -> str:
    """Which field of *value* cannot be encoded, and why; asked for after it has failed."""
    for field in cls.declared:
        if not field.in_version(version):
            continue
        item = getattr(value, field.name, None)
        try:
            field_encoder(cls, field.name, version, flexible)(Writer(), item)
        except UNENCODABLE as error:
            if isinstance(field.kind, type) and isinstance(item, list):
                inner = (culprit(field.kind, version, flexible, entry) for entry in item)
                return next(
                    (f"{field.name}[{index}].{found}" for index, found in enumerate(inner) if found),
                    f"{field.name}: {error}",
                )
            shown = "" if field.secret else f"={reprlib.repr(item)}"
            return f"{field.name}{shown}: {error}"
    return ""

"""CRC-32C, the checksum of the batches of format 2."""

from collections.abc import Callable
from importlib import import_module
from typing import TypeAlias

from pyklient.protocol.records.layout import Buffer

__all__ = ["crc32c"]

_Function: TypeAlias = Callable[[Buffer, int], int]

_loaded: _Function | None = None


def crc32c(data: Buffer, crc: int = 0) -> int:
    """Return the CRC-32C of *data*. If *data* continues other bytes, *crc* is the checksum of those bytes.

    The first call imports the package ``crc32c``. With the compiled kernel, clients seldom need the package,
    and importing it takes a tenth of the start-up time of a program that uses pyklient.
    """
    global _loaded
    if _loaded is None:
        _loaded = import_module("crc32c").crc32c
    return _loaded(data, crc)

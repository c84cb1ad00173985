"""The record kernel in use, under one name whichever it is.

``name`` says which one runs. ``PYKLIENT_KERNEL`` pins one, and a pinned kernel that cannot be loaded is an
ImportError: a test run or a benchmark never measures another one than it says.
"""

import os
from typing import Any, Final

from pyklient.protocol.records._append_py import Appender, Batch, Delivery, restored_delivery
from pyklient.protocol.records._kernel_py import (
    Chunk,
    Message,
    control_type,
    decode,
    encode_record,
    encode_records,
    murmur2,
    parse_records,
)

__all__ = [
    "Appender",
    "Batch",
    "Chunk",
    "Delivery",
    "Message",
    "control_type",
    "decode",
    "encode_record",
    "encode_records",
    "murmur2",
    "name",
    "parse_records",
    "restore_delivery",
    "restore_message",
]

name: Final = "python"

if (_pinned := os.environ.get("PYKLIENT_KERNEL") or name) != name:
    raise ImportError(f"PYKLIENT_KERNEL={_pinned}, but this installation has the kernel {name!r} only")


def restore_message(*fields: Any) -> Message:
    """Unpickle a message into the kernel in use, whichever wrote the pickle."""
    return Message(*fields)


def restore_delivery(*fields: Any) -> Delivery:
    """Unpickle a delivery into the kernel in use, whichever wrote the pickle."""
    return restored_delivery(*fields)

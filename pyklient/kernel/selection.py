"""The record kernel in use, under one name whichever it is: the compiled one where there is one, else Python.

``name`` says which one runs, ``file`` where the compiled one is (empty for the other), ``not_compiled`` why
it is not the compiled one. ``PYKLIENT_KERNEL`` pins one (``is_pinned``), and a pinned kernel that cannot be
loaded is an ImportError: a test run or a benchmark never measures another one than it says.
"""

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pyklient.kernel.compiled_loader import find_compiled
from pyklient.kernel.delivery_reports import Nobody
from pyklient.kernel.pickling import restore_with

__all__ = [
    "Appender",
    "ArrowRows",
    "Batch",
    "ColumnFilling",
    "Delivery",
    "Message",
    "append_rows",
    "call_back",
    "control_type",
    "decode",
    "decode_columns",
    "encode_record",
    "encode_records",
    "file",
    "is_pinned",
    "memory",
    "microseconds",
    "murmur2",
    "name",
    "not_compiled",
    "parse_records",
]


def _find() -> ModuleType | str:
    """The compiled kernel, or why it does not run."""
    pin = os.environ.get("PYKLIENT_KERNEL")
    if pin == "python":
        return "PYKLIENT_KERNEL=python"
    if pin and pin != "compiled":
        raise ImportError(
            f"PYKLIENT_KERNEL={pin}: there is no such kernel, only 'compiled' and 'python'", name=__package__
        )
    found = find_compiled()
    if pin and isinstance(found, str):
        raise ImportError(f"PYKLIENT_KERNEL={pin}, but {found}", name=__package__)
    return found


_compiled: Final[Any] = _find()
not_compiled: Final[str] = _compiled if isinstance(_compiled, str) else ""
name: Final = "python" if not_compiled else "compiled"
is_pinned: Final = bool(os.environ.get("PYKLIENT_KERNEL"))
file: Final[str] = "" if not_compiled else _compiled.__file__

if TYPE_CHECKING or not_compiled:
    from pyklient.kernel._kernel_py import (
        Appender,
        ArrowRows,
        Batch,
        ColumnFilling,
        Delivery,
        Message,
        append_rows,
        call_back,
        control_type,
        decode,
        decode_columns,
        encode_record,
        encode_records,
        memory,
        microseconds,
        murmur2,
        parse_records,
    )
else:
    Appender, Batch, Delivery = _compiled.Appender, _compiled.Batch, _compiled.Delivery
    call_back = _compiled.call_back
    ArrowRows, append_rows = _compiled.ArrowRows, _compiled.append_rows
    Message = _compiled.Message
    control_type, decode = _compiled.control_type, _compiled.decode
    ColumnFilling, decode_columns = _compiled.ColumnFilling, _compiled.decode_columns
    memory, microseconds = _compiled.memory, _compiled.microseconds
    encode_record, encode_records = _compiled.encode_record, _compiled.encode_records
    murmur2, parse_records = _compiled.murmur2, _compiled.parse_records


def _restored_delivery(
    topic: str, partition: int, index: int, timestamp_ms: int, outcome: tuple[Any, ...]
) -> Delivery:
    batch = Batch(Nobody(), topic, partition, 0.0)
    batch.recall(outcome)
    return Delivery(batch, index, timestamp_ms)


restore_with(message=Message, delivery=_restored_delivery)

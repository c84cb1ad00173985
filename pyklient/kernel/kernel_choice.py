"""Chooses the kernel: the compiled kernel if it can be loaded, and otherwise the Python kernel.

``name`` is the name of the kernel in use. ``file`` is the file of the compiled kernel, empty for the Python
kernel. ``not_compiled`` is the reason why the compiled kernel is not used. The environment variable
``PYKLIENT_KERNEL`` chooses a kernel explicitly; ``is_pinned`` is then True. If that kernel cannot be loaded,
an ImportError is raised, so that a test run or a benchmark never measures another kernel than intended.
"""

import os
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from pyklient.kernel.append.delivery_reports import Untracked
from pyklient.kernel.compiled_loader import find_compiled
from pyklient.kernel.pickling import restore_with

__all__ = [
    "Appender",
    "ArrowRows",
    "Batch",
    "ColumnBuilder",
    "Delivery",
    "EventBuffer",
    "EventSender",
    "KeyedMessage",
    "Lease",
    "LeasedIterator",
    "Message",
    "append_many",
    "append_messages",
    "append_rows",
    "array_hash",
    "batch_header",
    "by_partition",
    "by_topic",
    "call_back",
    "control_type",
    "count_within",
    "decode",
    "decode_columns",
    "encode_record",
    "encode_records",
    "encode_values",
    "file",
    "is_pinned",
    "memory",
    "microseconds",
    "murmur2",
    "name",
    "not_compiled",
    "parse_records",
    "plain_bytes",
    "produce_codec",
    "string_hash",
    "whole_batches",
]


def _find() -> ModuleType | str:
    """Return the compiled kernel, or the reason why it is not used."""
    pin = os.environ.get("PYKLIENT_KERNEL")
    if pin == "python":
        return "PYKLIENT_KERNEL=python"
    if pin and pin != "compiled":
        raise ImportError(
            f"PYKLIENT_KERNEL={pin} names no kernel; set it to 'compiled' or 'python'", name=__package__
        )
    found = find_compiled()
    if pin and isinstance(found, str):
        raise ImportError(
            f"PYKLIENT_KERNEL={pin} asks for a kernel that cannot be used: {found}", name=__package__
        )
    return found


_compiled: Final[Any] = _find()
not_compiled: Final[str] = _compiled if isinstance(_compiled, str) else ""
name: Final = "python" if not_compiled else "compiled"
is_pinned: Final = bool(os.environ.get("PYKLIENT_KERNEL"))
file: Final[str] = "" if not_compiled else _compiled.__file__
produce_codec: Final[Any] = None if not_compiled else (_compiled.ProduceEncoder, _compiled.ProduceDecoder)
"""The classes that encode Produce requests and decode Produce responses. None for the Python kernel, because
the generated functions of ``protocol`` are as fast as any code in Python."""

if TYPE_CHECKING or not_compiled:
    from pyklient.kernel.python_kernel import (
        Appender,
        ArrowRows,
        Batch,
        ColumnBuilder,
        Delivery,
        EventBuffer,
        EventSender,
        KeyedMessage,
        Lease,
        LeasedIterator,
        Message,
        append_many,
        append_messages,
        append_rows,
        array_hash,
        batch_header,
        by_partition,
        by_topic,
        call_back,
        control_type,
        count_within,
        decode,
        decode_columns,
        encode_record,
        encode_records,
        encode_values,
        memory,
        microseconds,
        murmur2,
        parse_records,
        plain_bytes,
        string_hash,
        whole_batches,
    )
else:
    Appender, Batch, Delivery = _compiled.Appender, _compiled.Batch, _compiled.Delivery
    call_back = _compiled.call_back
    ArrowRows, append_rows = _compiled.ArrowRows, _compiled.append_rows
    append_many, append_messages = _compiled.append_many, _compiled.append_messages
    Message = _compiled.Message
    EventBuffer, EventSender = _compiled.EventBuffer, _compiled.EventSender
    KeyedMessage = _compiled.KeyedMessage
    by_partition, by_topic = _compiled.by_partition, _compiled.by_topic
    count_within, plain_bytes = _compiled.count_within, _compiled.plain_bytes
    array_hash, string_hash = _compiled.array_hash, _compiled.string_hash
    Lease, LeasedIterator = _compiled.Lease, _compiled.LeasedIterator
    control_type, decode = _compiled.control_type, _compiled.decode
    ColumnBuilder, decode_columns = _compiled.ColumnBuilder, _compiled.decode_columns
    memory, microseconds = _compiled.memory, _compiled.microseconds
    encode_record, encode_records = _compiled.encode_record, _compiled.encode_records
    encode_values = _compiled.encode_values
    murmur2, parse_records = _compiled.murmur2, _compiled.parse_records
    batch_header, whole_batches = _compiled.batch_header, _compiled.whole_batches


def _restored_delivery(
    topic: str, partition: int, index: int, timestamp_ms: int, outcome: tuple[Any, ...]
) -> Delivery:
    batch = Batch(Untracked(), topic, partition, 0.0)
    batch.restore_report(outcome)
    return Delivery(batch, index, timestamp_ms)


restore_with(message=Message, delivery=_restored_delivery)

"""The code that runs once per record: appending to batches, deliveries, decoding into messages and columns.

There are two kernels, a compiled one and one in Python, which behave the same; ``selection`` chooses one.
Modules whose names begin with an underscore belong to one of the kernels, the others are shared by both.
"""

from pyklient.kernel.batch_records import encode_batch, read_records
from pyklient.kernel.conversion import convert
from pyklient.kernel.decoded_messages import Chunk
from pyklient.kernel.selection import (
    Appender,
    ArrowRows,
    Batch,
    ColumnBuilder,
    Delivery,
    Message,
    append_rows,
    call_back,
    control_type,
    decode,
    decode_columns,
    encode_record,
    encode_records,
    file,
    is_pinned,
    memory,
    microseconds,
    murmur2,
    name,
    not_compiled,
    parse_records,
)

__all__ = [
    "Appender",
    "ArrowRows",
    "Batch",
    "Chunk",
    "ColumnBuilder",
    "Delivery",
    "Message",
    "append_rows",
    "call_back",
    "control_type",
    "convert",
    "decode",
    "decode_columns",
    "encode_batch",
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
    "read_records",
]

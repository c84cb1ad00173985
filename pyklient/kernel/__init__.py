"""The code that runs once per record: appending to batches, deliveries, decoding into messages and columns.

There are two kernels, which behave the same, and ``kernel_choice`` chooses one. ``_kernel.pyx``, with the
``.pxi`` files that it includes, is the compiled kernel. ``python_kernel`` is the kernel in Python. A ``.py``
file that has the same name as a ``.pxi`` file does the same in Python. Both kernels share all other modules.
"""

from pyklient.kernel.batch_records import encode_batch, encode_values_batch, read_records
from pyklient.kernel.decode.message_chunk import Chunk
from pyklient.kernel.format_conversion import convert
from pyklient.kernel.kernel_choice import (
    Appender,
    ArrowRows,
    Batch,
    ColumnBuilder,
    Delivery,
    Lease,
    LeasedIterator,
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
    "Lease",
    "LeasedIterator",
    "Message",
    "append_rows",
    "call_back",
    "control_type",
    "convert",
    "decode",
    "decode_columns",
    "encode_batch",
    "encode_values_batch",
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

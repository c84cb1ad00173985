"""The kernel in Python: the reference that the compiled one, ``_kernel``, is held to.

Functions over buffers and batches under construction, nothing else: no sockets, no retries, no threads.
"""

from functools import partial
from typing import Final

from pyklient.kernel import batch_reader, column_decoding, message_decoding
from pyklient.kernel._append_columns_py import ArrowRows, append_rows
from pyklient.kernel._append_py import Appender, Batch, Delivery, call_back
from pyklient.kernel._decode_columns_py import ColumnBuilder, memory, microseconds
from pyklient.kernel._encode_py import encode_record, encode_records, murmur2
from pyklient.kernel._message_py import Message, make_messages
from pyklient.kernel._parse_py import parse_messages, parse_records

__all__ = [
    "Appender",
    "ArrowRows",
    "Batch",
    "ColumnBuilder",
    "Delivery",
    "Message",
    "append_rows",
    "call_back",
    "control_type",
    "decode",
    "decode_columns",
    "encode_record",
    "encode_records",
    "make_messages",
    "memory",
    "microseconds",
    "murmur2",
    "parse_messages",
    "parse_records",
]

_LOOPS: Final = batch_reader.RecordLoops(parse_records, parse_messages, make_messages)
decode = partial(message_decoding.decode, _LOOPS)
decode_columns = partial(column_decoding.decode_columns, _LOOPS, ColumnBuilder)
control_type = partial(batch_reader.control_type, _LOOPS)

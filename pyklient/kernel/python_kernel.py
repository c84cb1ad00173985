"""The kernel in Python. The compiled kernel, ``_kernel``, must behave exactly as this one.

A kernel works on buffers and on batches under construction. It uses no sockets and no threads, and retries
nothing.
"""

from functools import partial
from typing import Final

from pyklient.kernel.append.appender import Appender, Batch, Delivery, call_back
from pyklient.kernel.append.arrow_rows import ArrowRows, append_rows
from pyklient.kernel.append.bulk_appending import append_many
from pyklient.kernel.append.message_appending import append_messages
from pyklient.kernel.append.record_encoding import encode_record, encode_records, encode_values, murmur2
from pyklient.kernel.classic.event_buffer import EventBuffer, EventSender
from pyklient.kernel.classic.java_hashes import array_hash, string_hash
from pyklient.kernel.classic.keyed_message import KeyedMessage, by_topic, count_within, plain_bytes
from pyklient.kernel.classic.partition_sorting import by_partition
from pyklient.kernel.decode import batch_reader, column_decoding, message_decoding
from pyklient.kernel.decode.batch_runs import whole_batches
from pyklient.kernel.decode.column_builder import ColumnBuilder, memory, microseconds
from pyklient.kernel.decode.lease import Lease, LeasedIterator
from pyklient.kernel.decode.message import Message, make_messages
from pyklient.kernel.decode.record_parsing import parse_messages, parse_records
from pyklient.protocol.records.batch_header import batch_header
from pyklient.protocol.records.checksum import crc32c

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
    "crc32c",
    "decode",
    "decode_columns",
    "encode_record",
    "encode_records",
    "encode_values",
    "make_messages",
    "memory",
    "microseconds",
    "murmur2",
    "parse_messages",
    "parse_records",
    "plain_bytes",
    "string_hash",
    "whole_batches",
]

_LOOPS: Final = batch_reader.RecordLoops(parse_records, make_messages, crc32c, parse_messages=parse_messages)
decode = partial(message_decoding.decode, _LOOPS)
decode_columns = partial(column_decoding.decode_columns, _LOOPS, ColumnBuilder)
control_type = partial(batch_reader.control_type, _LOOPS)

"""The record formats 0, 1 and 2: the layout of fields, headers of batches, message sets, and compression.

The loops over the records of format 2 are in :mod:`pyklient.kernel`.
"""

from pyklient.protocol.records.aborted_transactions import AbortedTransactions
from pyklient.protocol.records.batch_header import RecordBatch, batch_header, iter_batches
from pyklient.protocol.records.compression import (
    DEFAULT_MAX_DECOMPRESSED,
    Compression,
    compress,
    decompress,
)
from pyklient.protocol.records.layout import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    DecodedRecord,
    NewRecord,
    batch_end,
)
from pyklient.protocol.records.offset_assignment import assign_offsets

__all__ = [
    "AbortedTransactions",
    "Compression",
    "CREATE_TIME",
    "DEFAULT_MAX_DECOMPRESSED",
    "DecodedRecord",
    "LOG_APPEND_TIME",
    "NO_PRODUCER_ID",
    "NO_TIMESTAMP",
    "NO_TIMESTAMP_TYPE",
    "NewRecord",
    "RecordBatch",
    "assign_offsets",
    "batch_end",
    "batch_header",
    "compress",
    "decompress",
    "iter_batches",
]

"""Record bytes: batches of formats 0, 1 and 2, their compression, and conversion between them.

The loops that touch every record live behind :mod:`pyklient.protocol.records.kernel`.
"""

from pyklient.protocol.records.aborted import AbortedTransactions
from pyklient.protocol.records.batch import RecordBatch, batch_header, encode_batch, iter_batches
from pyklient.protocol.records.compression import (
    DEFAULT_MAX_DECOMPRESSED,
    Compression,
    compress,
    decompress,
)
from pyklient.protocol.records.conversion import assign_offsets, convert
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
    "convert",
    "decompress",
    "encode_batch",
    "iter_batches",
]

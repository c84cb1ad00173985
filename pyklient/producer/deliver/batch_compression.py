"""Compresses sealed batches. The sender does this when it drains a batch from the queue of its partition."""

from pyklient.kernel import Batch
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.accumulate.forwarded_batch import ForwardedBatch
from pyklient.producer.deliver.sealed_batch import SealedBatch
from pyklient.protocol.records import Compression, compress
from pyklient.protocol.records.layout import BATCH_SIZE, Buffer

__all__ = ["BatchCompressor", "compress_batch"]


class BatchCompressor:
    """Compresses the batches of a producer before they are sent for the first time."""

    def __init__(self, accumulator: RecordAccumulator, codec: Compression) -> None:
        self._accumulator = accumulator
        self._codec = codec

    def compress(self, batch: Batch) -> SealedBatch | None:
        """Seal *batch* if it is still open, and return its records compressed. If *batch* has no records,
        finish it and return None.

        Compression runs without the GIL. The memory that compression saves is released.
        """
        self._accumulator.sealer.seal(batch)
        if not batch.count:  # Ctrl-C interrupted the thread that began the batch
            self._accumulator.finished([batch], batch.report(0, 0, -1, -1, None) or [])
            return None
        if not self._codec:
            return compress_batch(batch, self._codec)
        capacity = batch.capacity
        sealed = compress_batch(batch, self._codec)
        if type(batch) is not ForwardedBatch:
            self._accumulator.shrunk(batch, capacity - len(sealed.payload))
        return sealed


def compress_batch(batch: Batch, codec: Compression) -> SealedBatch:
    """Return a SealedBatch with the records of *batch*, which accepts no more records. The records are
    compressed with *codec*, unless another producer has encoded them."""
    if type(batch) is ForwardedBatch:  # faster than isinstance, which asks the ABC
        records = batch.encoded_records()
        size = len(records) + BATCH_SIZE
        return SealedBatch(batch, 0, batch.count, records, batch.codec, batch.timestamps, size)
    payload: Buffer = batch.payload()
    plain_size = len(payload) + BATCH_SIZE
    if codec:
        payload = compress(codec, payload)
        batch.release_records()
    timestamps = batch.base_timestamp, batch.max_timestamp
    return SealedBatch(batch, 0, batch.count, payload, codec, timestamps, plain_size)

"""Seals batches, so that they accept no more records, and compresses them.

A batch is due to be sent in two cases:

- ``linger_ms`` has passed since the batch was begun (``PartitionQueue.ready``). The sender seals it then.
- The batch was sealed before: the next record did not fit, ``flush`` or ``close`` was called, or memory was
  short (see ``pyklient.producer.accumulate.accumulator``).

The sender compresses a batch when it drains the batch from the queue of its partition.
"""

import time

from pyklient.kernel import Batch
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.accumulate.encoded_batch import EncodedBatch
from pyklient.producer.deliver.sealed_batch import SealedBatch
from pyklient.protocol.records import Compression, compress
from pyklient.protocol.records.layout import BATCH_SIZE, Buffer

__all__ = ["Sealer", "seal"]


class Sealer:
    """Seals, compresses and counts the batches of a producer. *linger* is in seconds."""

    def __init__(self, accumulator: RecordAccumulator, codec: Compression, linger: float) -> None:
        self.linger = linger
        self._accumulator = accumulator
        self._codec = codec
        self._counts = accumulator.counts

    def seal(self, batch: Batch) -> SealedBatch | None:
        """Seal *batch* and return its records compressed. If *batch* has no records, it is done; return None.

        Compression runs without the GIL. The memory that compression saves is released.
        """
        self._accumulator.appender.seal_batch(batch)
        if not batch.count:  # Ctrl-C interrupted the thread that began the batch
            self._accumulator.finished(batch, batch.report(0, 0, -1, -1, None) or [])
            return None
        capacity, size, now = batch.capacity, batch.size, time.monotonic()
        sealed = seal(batch, self._codec)
        if self._codec and not isinstance(batch, EncodedBatch):
            self._accumulator.shrunk(batch, capacity - len(sealed.payload))
        self._counts.seal(batch.count, size + BATCH_SIZE, sealed.size, now - batch.created, now)
        return sealed


def seal(batch: Batch, codec: Compression) -> SealedBatch:
    """Return *batch* as it is sent: its records are compressed with *codec*, unless they were encoded by
    another producer. *batch* accepts no more records."""
    if isinstance(batch, EncodedBatch):
        return SealedBatch(batch, 0, batch.count, batch.encoded_records(), batch.codec, batch.timestamps)
    payload: Buffer = batch.payload()
    if codec:
        payload = compress(codec, payload)
        batch.release_records()
    timestamps = batch.base_timestamp, batch.max_timestamp
    return SealedBatch(batch, 0, batch.count, payload, codec, timestamps)

"""A batch that a mirror forwards: another producer has encoded and compressed its records."""

from typing import Final

from pyklient.kernel import Batch
from pyklient.kernel.append.delivery_reports import Tracker
from pyklient.kernel.append.open_batches import BATCH_COST
from pyklient.protocol.records import Compression, RecordBatch
from pyklient.protocol.records.layout import BATCH_SIZE, Buffer

__all__ = ["ForwardedBatch"]


class ForwardedBatch(Batch):
    """A batch with the records of *source*, a batch of record format 2 that was fetched. The new batch is
    sealed from the start.

    The records are sent as they are, and are not decoded. The batch gets a new header, with this producer's
    id and sequence number.
    """

    def __init__(
        self, tracker: Tracker, topic: str, partition: int, created: float, source: RecordBatch
    ) -> None:
        super().__init__(tracker, topic, partition, created)
        self.sealed = True
        self.codec: Final[Compression] = source.compression
        self.timestamps: Final = source.base_timestamp, source.max_timestamp
        self._source: RecordBatch | None = source
        self._record_count = source.count
        self._size = source.size - BATCH_SIZE
        self.charged = BATCH_COST + self._size

    @property
    def count(self) -> int:
        """The number of records in the batch."""
        return self._record_count

    @property
    def size(self) -> int:
        """The size in bytes of the records in the batch, which may be compressed."""
        return self._size

    def encoded_records(self) -> Buffer:
        """Return the records as they are sent: the bytes that follow the header."""
        assert self._source is not None
        return self._source.buffer[BATCH_SIZE:]

    def release_records(self) -> None:
        """Free the memory of the records."""
        self._source = None

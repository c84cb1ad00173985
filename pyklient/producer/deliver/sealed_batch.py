"""A sealed batch: the bytes that are sent to the broker, and sent again in a retry."""

from collections.abc import Sequence

from pyklient.counted import counted
from pyklient.errors import KafkaError
from pyklient.kernel import Batch, batch_header, encode_batch, read_records
from pyklient.producer.deliver.sequences import NO_IDENTITY, BatchIdentity
from pyklient.protocol.records import (
    Compression,
    NewRecord,
    compress,
    iter_batches,
)
from pyklient.protocol.records.layout import BATCH_SIZE, INT32_MAX, Buffer

__all__ = ["SealedBatch"]


class SealedBatch:
    """The records *first* to *first* + *count* - 1 of a ``Batch``, in the form in which they are sent.

    These are all records of the Batch, unless it was split because the broker found it too large. ``batch``
    is the Batch to which users' threads appended, and where the outcome is reported. ``attempts`` counts how
    often the records were sent. ``in_doubt`` is True if an attempt ended without a response, so that the
    broker may have stored the records. ``failure`` is the failure of the last attempt, or None. *timestamps*
    are the first and the largest timestamp, in milliseconds. ``expired`` is True if ``delivery_timeout_ms``
    ran out while the records were in flight.
    """

    __slots__ = (
        "attempts",
        "batch",
        "codec",
        "count",
        "expired",
        "failure",
        "first",
        "identity",
        "in_doubt",
        "number",
        "payload",
        "plain_size",
        "size",
        "timestamps",
    )

    def __init__(
        self,
        batch: Batch,
        first: int,
        count: int,
        payload: Buffer,
        codec: Compression,
        timestamps: tuple[int, int],
        plain_size: int,
    ) -> None:
        self.batch = batch
        self.first = first
        self.count = count
        self.payload = payload
        self.size = len(payload) + BATCH_SIZE
        """The size of the batch in bytes, as it is sent to the broker."""
        self.plain_size = plain_size
        """The size of the batch in bytes before this client compressed it."""
        self.codec = codec
        self.timestamps = timestamps
        self.number = 0
        """The serial number of the batch in its partition. The two halves of a split batch have the same
        number."""
        self.attempts = 0
        self.in_doubt = False
        self.expired = False
        self.failure: KafkaError | None = None
        self.identity: BatchIdentity | None = None
        """The producer id, epoch and sequence number of the batch. None until the batch is sent."""

    def __repr__(self) -> str:
        batch = self.batch
        return f"<{counted(self.count, 'record')} for {batch.topic}-{batch.partition}, {self.identity}>"

    @property
    def order(self) -> tuple[int, int]:
        """The number of the batch and the index of its first record. Batches of a partition are sorted by
        this pair."""
        return self.number, self.first

    @property
    def stop(self) -> int:
        """The index that follows the last record of this sealed batch. Indexes count the records of
        ``batch``."""
        return self.first + self.count

    @property
    def idempotent(self) -> bool:
        """True if the batch carries a producer id."""
        return self.identity is not None and self.identity.producer_id >= 0

    def buffers(self, record_format: int, *, transactional: bool = False) -> list[Buffer]:
        """Return the bytes to send, in *record_format*. In format 2, the records are not copied.

        If *transactional*, the batch is a part of a transaction, which needs format 2.

        For formats before 2, raises UnsupportedVersionError if records have headers, and
        UnsupportedCodecError for zstd.
        """
        if record_format != 2:
            return [encode_batch(self._records(), magic=record_format, compression=self.codec)]
        producer_id, epoch, sequence = self.identity or NO_IDENTITY
        first_timestamp, max_timestamp = self.timestamps
        header = batch_header(
            self.payload,
            count=self.count,
            base_timestamp=first_timestamp,
            max_timestamp=max_timestamp,
            compression=self.codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        return [header, self.payload]

    def halves(self) -> tuple["SealedBatch", "SealedBatch"]:
        """Return the batch in two halves, because the broker found it too large. The records keep their
        sequence numbers."""
        records = self._records()
        middle = self.count // 2
        parts = self._part(records[:middle], 0), self._part(records[middle:], middle)
        for part, offset in zip(parts, (0, middle), strict=True):
            if self.identity is not None:
                moved = (self.identity.sequence + offset) & INT32_MAX if self.idempotent else -1
                part.identity = self.identity._replace(sequence=moved)
        return parts

    def _part(self, records: Sequence[NewRecord], offset: int) -> "SealedBatch":
        plain = memoryview(encode_batch(records))
        payload = plain[BATCH_SIZE:]
        times = [record.timestamp_ms for record in records]
        part = SealedBatch(
            self.batch,
            self.first + offset,
            len(records),
            compress(self.codec, payload) if self.codec else payload,
            self.codec,
            (times[0], max(times)),
            len(plain),
        )
        part.number = self.number
        part.attempts = self.attempts
        part.failure = self.failure
        return part

    def _records(self) -> list[NewRecord]:
        (sealed,) = iter_batches(b"".join(self.buffers(2)))
        return [
            NewRecord(record.timestamp_ms, record.key, record.value, record.headers)
            for record in read_records(sealed, max_decompressed=INT32_MAX)
        ]

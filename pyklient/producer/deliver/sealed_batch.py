"""Records of one batch, sealed: compressed, with a header, ready to go to the broker and to go again."""

from collections.abc import Sequence

from pyklient.errors import KafkaError
from pyklient.producer.deliver.producer_identity import NO_IDENTITY, BatchIdentity
from pyklient.protocol.records import (
    Compression,
    NewRecord,
    batch_header,
    compress,
    encode_batch,
    iter_batches,
)
from pyklient.protocol.records.kernel import Batch
from pyklient.protocol.records.layout import BATCH_SIZE, INT32_MAX, Buffer

__all__ = ["ProducerBatch", "format_for", "seal"]


def format_for(produce_version: int) -> int:
    """The record format that a Produce request of this version carries."""
    if produce_version >= 3:
        return 2
    return 1 if produce_version == 2 else 0


def seal(gathered: Batch, codec: Compression) -> "ProducerBatch":
    """All records of a batch that is closed. Compresses, which is work without the GIL."""
    payload: Buffer = gathered.payload()
    if codec:
        payload = compress(codec, payload)
        gathered.let_go()
    timestamps = gathered.base_timestamp, gathered.max_timestamp
    return ProducerBatch(gathered, 0, gathered.count, payload, codec, timestamps)


class ProducerBatch:
    """A batch, or a part of one that the broker found too large: *count* records from *first* on.

    ``gathered`` is the batch as users' threads filled it, which hears of the outcome. ``attempts`` counts how
    often it was sent. ``in_doubt``: some attempt has ended without an answer, so the broker may have stored
    it. ``failure`` is why it has not been confirmed so far. ``expired``: its deliveries have failed while it
    was on the wire.
    """

    __slots__ = (
        "attempts",
        "codec",
        "count",
        "expired",
        "failure",
        "first",
        "gathered",
        "identity",
        "in_doubt",
        "order",
        "payload",
        "timestamps",
    )

    def __init__(
        self,
        gathered: Batch,
        first: int,
        count: int,
        payload: Buffer,
        codec: Compression,
        timestamps: tuple[int, int],
    ) -> None:
        self.gathered = gathered
        self.first = first
        self.count = count
        self.payload = payload
        self.codec = codec
        self.timestamps = timestamps
        self.order = 0
        """Rises from batch to batch of a partition; the parts of one share it."""
        self.attempts = 0
        self.in_doubt = False
        self.expired = False
        self.failure: KafkaError | None = None
        self.identity: BatchIdentity | None = None
        """What tells it from other batches; None while it has none yet."""

    def __repr__(self) -> str:
        gathered = self.gathered
        return f"<{self.count} records for {gathered.topic}-{gathered.partition}, {self.identity}>"

    @property
    def place(self) -> tuple[int, int]:
        """Its place among the batches of its partition."""
        return self.order, self.first

    @property
    def stop(self) -> int:
        """The index in ``gathered`` after its last record."""
        return self.first + self.count

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return len(self.payload) + BATCH_SIZE

    @property
    def idempotent(self) -> bool:
        """Whether it carries a producer id."""
        return self.identity is not None and self.identity.producer_id >= 0

    def buffers(self, record_format: int) -> list[Buffer]:
        """The record bytes in a format, as they go to the socket; in format 2 without a copy.

        Raises UnsupportedVersionError for headers, UnsupportedCodecError for zstd, before format 2.
        """
        if record_format == 2:
            return [self._header(), self.payload]
        return [encode_batch(self._records(), magic=record_format, compression=self.codec)]

    def halves(self) -> tuple["ProducerBatch", "ProducerBatch"]:
        """Two batches with its records, for a broker that found them too large together. The sequence runs
        through both, as it did through this one."""
        records = self._records()
        middle = self.count // 2
        parts = self._part(records[:middle], 0), self._part(records[middle:], middle)
        for part, offset in zip(parts, (0, middle), strict=True):
            if self.identity is not None:
                moved = (self.identity.sequence + offset) & INT32_MAX if self.idempotent else -1
                part.identity = self.identity._replace(sequence=moved)
        return parts

    def _part(self, records: Sequence[NewRecord], offset: int) -> "ProducerBatch":
        data = memoryview(encode_batch(records, compression=self.codec))
        times = [record.timestamp_ms for record in records]
        part = ProducerBatch(
            self.gathered,
            self.first + offset,
            len(records),
            data[BATCH_SIZE:],
            self.codec,
            (times[0], max(times)),
        )
        part.order = self.order
        part.attempts = self.attempts
        part.failure = self.failure
        return part

    def _header(self) -> bytes:
        producer_id, epoch, sequence = self.identity or NO_IDENTITY
        return batch_header(
            self.payload,
            count=self.count,
            base_timestamp=self.timestamps[0],
            max_timestamp=self.timestamps[1],
            compression=self.codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )

    def _records(self) -> list[NewRecord]:
        (sealed,) = iter_batches(b"".join((self._header(), self.payload)))
        return [
            NewRecord(record.timestamp_ms, record.key, record.value, record.headers)
            for record in sealed.records(max_decompressed=INT32_MAX)
        ]

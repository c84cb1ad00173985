"""The markers that end transactions: control batches with one record, which only brokers write."""

from struct import Struct, error
from typing import Final, NamedTuple

from pyklient.errors import ProtocolError
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records import NewRecord, iter_batches

__all__ = ["TransactionMarker", "encode_marker", "read_marker"]

_KEY: Final = Struct(">hh")
_VALUE: Final = Struct(">hi")
_VERSION: Final = 0
_ABORT, _COMMIT = 0, 1


class TransactionMarker(NamedTuple):
    """A marker that ends a transaction of a producer in one partition.

    ``coordinator_epoch`` grows when another node becomes the transaction coordinator, so that markers of the
    former coordinator are recognized.
    """

    producer_id: int
    producer_epoch: int
    is_commit: bool
    coordinator_epoch: int


def encode_marker(marker: TransactionMarker, base_offset: int, timestamp_ms: int) -> bytes:
    """Return the control batch that contains *marker*, with the offset *base_offset*."""
    key = _KEY.pack(_VERSION, _COMMIT if marker.is_commit else _ABORT)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    return encode_batch(
        [NewRecord(timestamp_ms, key, value)],
        base_offset=base_offset,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        transactional=True,
        control=True,
        partition_leader_epoch=0,
    )


def read_marker(data: Buffer) -> TransactionMarker | None:
    """Return the marker in *data*, which is a control batch. Return None if the batch does not mark
    the end of a transaction, or if it has no records. Compaction may leave such a batch without records."""
    for batch in iter_batches(data):
        for record in read_records(batch):
            try:
                _, kind = _KEY.unpack_from(record.key or b"")
                _, coordinator_epoch = _VALUE.unpack_from(record.value or b"")
            except error:
                raise ProtocolError(
                    f"the control record at offset {record.offset} has a key or value that is too short"
                ) from None
            if kind in (_ABORT, _COMMIT):
                return TransactionMarker(
                    batch.producer_id, batch.producer_epoch, kind == _COMMIT, coordinator_epoch
                )
    return None

"""Iteration over whole batches, for mirrors: a batch is handed out as it was fetched, and nothing decodes its
records.

A batch is handed out whole only if a producer could send it again as it is. Its message has the RecordBatch
as its value, and the offset of the first record. All other records are handed out as single messages. These
are records in the formats 0 and 1, records of transactions, records of compacted batches, and records with
the timestamps of a broker.
"""

from collections.abc import Callable
from typing import Final

from pyklient.consumer.fetch.fetch_position import FetchedBatches
from pyklient.kernel import Chunk, Message
from pyklient.protocol.records import RecordBatch
from pyklient.protocol.records.batch_header import batch_end
from pyklient.protocol.records.layout import CODEC_BITS, CREATE_TIME, MAGIC_AT

__all__ = ["batch_chunk"]

_FORMAT: Final = 2


def batch_chunk(fetched: FetchedBatches, decode: Callable[[FetchedBatches], Chunk]) -> Chunk:
    """Return the next chunk of *fetched*. If the next batch can be sent again as it is, the chunk consists of
    this batch. Otherwise, *decode* makes the chunk from the batches before the next batch that can be sent
    again."""
    buffer, at = fetched.buffer, fetched.at
    end = batch_end(buffer, at)
    if end and (batch := _whole(fetched, at, end)) is not None:
        batch.verify()  # always: the producer gives the batch a new checksum
        topic, partition = fetched.cursor.partition
        message = Message(
            topic, partition, batch.base_offset, batch.max_timestamp, CREATE_TIME, None, batch, ()
        )
        return Chunk(topic, partition, [message], batch.next_offset, batch.size)
    while end and (after := batch_end(buffer, end)) and _whole(fetched, end, after) is None:
        end = after
    others = fetched.copy()
    others.buffer = buffer[: end or len(buffer)]
    return decode(others)


def _whole(fetched: FetchedBatches, at: int, end: int) -> RecordBatch | None:
    """Return the batch from byte *at* to *end* of *fetched* if it can be handed out whole, otherwise None."""
    if fetched.buffer[at + MAGIC_AT] != _FORMAT:
        return None
    batch = RecordBatch(fetched.buffer[at:end])
    # The other attributes are those of transactions, control records, brokers' timestamps and compaction.
    plain = not batch.attributes & ~CODEC_BITS
    gapless = batch.count == batch.next_offset - batch.base_offset > 0
    return batch if plain and gapless and batch.base_offset >= fetched.start else None

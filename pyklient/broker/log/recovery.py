"""Opens the segments of a log: with the state that a clean shutdown has saved, or by checking every batch."""

import logging
import os
from pathlib import Path

from pyklient.broker.log.batch_headers import BatchHeader
from pyklient.broker.log.clean_shutdown import LogState
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.producer_state import ProducerStates
from pyklient.broker.log.segment import Segment
from pyklient.broker.log.transaction_index import AbortedTransaction
from pyklient.broker.log.transaction_markers import TransactionMarker, read_marker
from pyklient.errors import ProtocolError

__all__ = ["end_transaction", "new_segment", "recover_segments", "restore_segments"]

_logger = logging.getLogger("pyklient.broker")


def new_segment(directory: Path, base_offset: int, config: LogConfig) -> Segment:
    """Return the segment of *directory* whose first offset is *base_offset*. Its files are not opened yet."""
    return Segment(
        directory,
        base_offset,
        index_interval_bytes=config.index_interval_bytes,
        index_max_bytes=config.index_max_bytes,
    )


def restore_segments(
    directory: Path, config: LogConfig, state: LogState, producers: ProducerStates
) -> list[Segment] | None:
    """Open the segments of a log as described by *state*, which a clean shutdown has saved, and add the saved
    producers to *producers*. Return None if the files do not match *state*."""
    segments = [new_segment(directory, each.base_offset, config) for each in state.segments]
    known = {segment.base_offset for segment in segments}
    if known.issuperset(_base_offsets(directory)) and all(
        segment.restore(each) for segment, each in zip(segments, state.segments, strict=True)
    ):
        producers.restore(state.producers)
        return segments
    _logger.warning(
        "%s: the files have changed since the last clean shutdown, so the whole log is read", directory
    )
    for segment in segments:
        segment.close()
    return None


def recover_segments(directory: Path, config: LogConfig, producers: ProducerStates) -> list[Segment]:
    """Open the segments of a log, check all their batches, and add the batches and transactions of producers
    to *producers*. The aborted transactions are written into the segments' transaction indexes.

    If a batch is invalid, it is deleted with all bytes and segments after it.
    """
    segments: list[Segment] = []
    intact = True
    for base in _base_offsets(directory):
        segment = new_segment(directory, base, config)
        if not intact or (segments and base < segments[-1].next_offset):
            _logger.warning(
                "%s: segment %s was deleted, because the segment before it is damaged",
                directory,
                segment.path.name,
            )
            segment.delete()
            continue
        found = segment.path.stat().st_size
        for header in segment.recover():
            _remember(producers, segment, header)
        segment.transactions.rewrite()
        if segment.size < found:
            intact = False
            _logger.warning(
                "%s: %d bytes after the last valid batch were cut off", segment.path, found - segment.size
            )
        segments.append(segment)
    if segments:
        _logger.info(
            "%s: %d bytes of the log were checked", directory, sum(segment.size for segment in segments)
        )
    return segments or [new_segment(directory, 0, config)]


def _base_offsets(directory: Path) -> list[int]:
    """Return the base offsets of the segment files in *directory*, ascending."""
    stems = (name.removesuffix(".log") for name in os.listdir(directory) if name.endswith(".log"))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def end_transaction(
    producers: ProducerStates,
    segment: Segment,
    marker: TransactionMarker,
    offset: int,
    timestamp_ms: int,
    *,
    to_disk: bool = True,
) -> None:
    """Remember in *producers* that *marker* has ended a transaction. If the transaction was aborted, add
    it to the transaction index of *segment*, which contains the marker at *offset*. If *to_disk* is false,
    add it only in memory."""
    first_offset = producers.end_transaction(marker, timestamp_ms)
    if first_offset is None or marker.is_commit:
        return
    still_open = producers.first_open_offset
    last_stable_offset = offset + 1 if still_open is None else still_open
    segment.transactions.add(
        AbortedTransaction(marker.producer_id, first_offset, offset, last_stable_offset), to_disk=to_disk
    )


def _remember(producers: ProducerStates, segment: Segment, header: BatchHeader) -> None:
    if header.producer_id < 0 or not header.record_count:
        return
    if header.is_control:
        marker = _marker(segment, header)
        if marker is not None:
            end_transaction(
                producers, segment, marker, header.last_offset, header.max_timestamp, to_disk=False
            )
    elif header.base_sequence >= 0 or header.is_transactional:
        producers.add_batch(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            header.base_offset,
            header.max_timestamp,
            transactional=header.is_transactional,
        )


def _marker(segment: Segment, header: BatchHeader) -> TransactionMarker | None:
    try:
        return read_marker(segment.read(header.position, header.size))
    except ProtocolError as error:
        _logger.warning("%s: a control batch was ignored: %s", segment.path, error)
        return None

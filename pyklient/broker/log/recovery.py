"""Opens the segments of a log: with the state that a clean shutdown has saved, or by checking every batch."""

import logging
import os
from pathlib import Path

from pyklient.broker.log.batch_headers import BatchHeader
from pyklient.broker.log.clean_shutdown import LogState
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.producer_state import ProducerStates
from pyklient.broker.log.segment import Segment

__all__ = ["new_segment", "recover_segments", "restore_segments"]

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
    """Open the segments of a log, and restore *producers*, from *state*, which a clean shutdown has saved.
    Return None if the files do not match *state*."""
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
    """Open the segments of a log, check all their batches, and add the batches of idempotent producers to
    *producers*.

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
            _remember(producers, header)
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


def _remember(producers: ProducerStates, header: BatchHeader) -> None:
    if (
        header.producer_id >= 0
        and header.base_sequence >= 0
        and header.record_count > 0
        and not header.is_control
    ):
        producers.add_batch(
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            header.record_count,
            header.base_offset,
            header.max_timestamp,
        )

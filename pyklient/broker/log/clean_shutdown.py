"""The state of a log at a clean stop. With it the next start need not read the log's batches.

It is kept for all logs together in one file, as JSON, which is there only while no broker runs.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

__all__ = ["LogState", "ProducerState", "SegmentState", "Sequenced", "decode_states", "encode_states"]

_FORMAT: Final = 1


class SegmentState(NamedTuple):
    """A segment: the size of its file, what its batches say, and where its index stands."""

    base_offset: int
    size: int
    last_offset: int
    max_timestamp: int
    index_entries: int
    unindexed_bytes: int


class Sequenced(NamedTuple):
    """One stored batch of an idempotent producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


class ProducerState(NamedTuple):
    """An idempotent producer and its last batches, oldest first."""

    producer_id: int
    epoch: int
    batches: list[Sequenced]


class LogState(NamedTuple):
    """A partition's log. The producer that was silent for the longest time comes first."""

    segments: list[SegmentState]
    producers: list[ProducerState]


def encode_states(logs: Mapping[str, LogState]) -> bytes:
    """*logs*, by the names of their directories, for :func:`decode_states`."""
    return json.dumps({"format": _FORMAT, "logs": logs}, separators=(",", ":")).encode()


def decode_states(data: bytes) -> dict[str, LogState]:
    """What :func:`encode_states` was given. Raises ValueError for anything else."""
    found = json.loads(data)
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError(f"not a checkpoint of format {_FORMAT}")
    return {name: _log_state(*each) for name, each in found["logs"].items()}


def _log_state(segments: list[list[int]], producers: list[list[Any]]) -> LogState:
    return LogState(
        [SegmentState(*each) for each in segments],
        [
            ProducerState(producer_id, epoch, [Sequenced(*each) for each in batches])
            for producer_id, epoch, batches in producers
        ],
    )

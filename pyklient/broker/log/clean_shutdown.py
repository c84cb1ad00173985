"""Saves the state of all logs at a clean shutdown, so that the next start need not read the batches in the
logs.

The state is kept in one JSON file, ``.clean``. The file exists only while no broker runs in the directory: a
shutdown writes it as its last step, and a start removes it before it changes any log. If the broker ended in
another way, the file is missing, and the next start reads and checks all logs.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyklient.broker.data_directory import replace_file

__all__ = [
    "NO_TRANSACTION",
    "LogState",
    "ProducerState",
    "SegmentState",
    "SequencedBatch",
    "decode_states",
    "encode_states",
    "pop_states",
    "write_states",
]

_logger = logging.getLogger("pyklient.broker")

_FILE: Final = ".clean"
_FORMAT: Final = 2

NO_TRANSACTION: Final = -1
"""The value of ``first_offset`` if a producer has no open transaction."""


class SegmentState(NamedTuple):
    """The size of a segment's file, the last offset and the newest timestamp in it, and the state of its
    indexes."""

    base_offset: int
    size: int
    last_offset: int
    max_timestamp: int
    index_entries: int
    unindexed_bytes: int
    aborted_transactions: int = 0


class SequencedBatch(NamedTuple):
    """A batch of an idempotent producer that is stored in the log: its sequence numbers, offset and
    timestamp."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


class ProducerState(NamedTuple):
    """The state of a producer in a partition: its epoch, and its last batches, with the oldest first.

    ``coordinator_epoch`` is the epoch in the last transaction marker of the producer, or -1. ``first_offset``
    is the first offset of its open transaction, or NO_TRANSACTION.
    """

    producer_id: int
    epoch: int
    batches: list[SequencedBatch]
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1
    first_offset: int = NO_TRANSACTION


class LogState(NamedTuple):
    """The state of a partition's log: its segments and its producers, with the least recently active producer
    first."""

    segments: list[SegmentState]
    producers: list[ProducerState]


def pop_states(directory: Path) -> dict[str, LogState]:
    """Return the state of each log that the ``.clean`` file in *directory* contains, by the name of the log's
    directory. Remove the file.

    The result is empty if the last shutdown was not clean, or if the file cannot be read.
    """
    path = directory / _FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    path.unlink()
    try:
        return decode_states(data)
    except (ValueError, TypeError, KeyError, AttributeError):
        return {}


def write_states(directory: Path, logs: Mapping[str, LogState]) -> None:
    """Write the ``.clean`` file in *directory*.

    All *logs* must be closed already, and must not change before the next start.
    """
    try:
        replace_file(directory / _FILE, encode_states(logs))
    except OSError as error:
        _logger.warning(
            "%s: the state of the logs was not saved at the shutdown (%s); the next start reads all logs",
            directory,
            error.strerror or error,
        )


def encode_states(logs: Mapping[str, LogState]) -> bytes:
    """Encode *logs*, which maps the name of each log's directory to the state of the log.
    :func:`decode_states` decodes the result."""
    return json.dumps({"format": _FORMAT, "logs": logs}, separators=(",", ":")).encode()


def decode_states(data: bytes) -> dict[str, LogState]:
    """Decode *data*, which :func:`encode_states` has returned. Raises ValueError if *data* has another
    format."""
    found = json.loads(data)
    if not isinstance(found, dict) or found.get("format") != _FORMAT:
        raise ValueError(f"the state that the last shutdown saved is not in format {_FORMAT}")
    return {name: _log_state(*each) for name, each in found["logs"].items()}


def _log_state(segments: list[list[int]], producers: list[list[Any]]) -> LogState:
    return LogState(
        [SegmentState(*each) for each in segments],
        [
            ProducerState(producer_id, epoch, [SequencedBatch(*each) for each in batches], *others)
            for producer_id, epoch, batches, *others in producers
        ],
    )

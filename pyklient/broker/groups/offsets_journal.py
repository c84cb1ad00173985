"""The journal of the group coordinator: committed offsets and generations, which survive a restart of the
broker.

The journal is a file of JSON lines: one for each commit, each complete generation and each deletion. The
broker reads it once, at its start. If a crash has left an incomplete last line, the start removes that line.
The file is written anew when most of its lines are outdated.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyklient.broker.data_directory import replace_file
from pyklient.topic_partition import TopicPartition

__all__ = ["CommittedOffset", "OffsetsJournal"]

_logger = logging.getLogger("pyklient.broker")

_MIN_LINES: Final = 1_000
_MAX_LINES_PER_ENTRY: Final = 4


class CommittedOffset(NamedTuple):
    """An offset that a group has committed for a partition."""

    offset: int
    leader_epoch: int
    metadata: str


class OffsetsJournal:
    """The committed offsets and the last generation of each group, stored in the file *path*.

    A generation is a dict that can be encoded as JSON.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._generations: dict[str, dict[str, Any]] = {}
        self._lines = 0
        self._load()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    @property
    def groups(self) -> set[str]:
        """The ids of all groups that the journal has entries of."""
        return self._committed.keys() | self._generations.keys()

    def committed(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        """Return all committed offsets of a group; empty if there are none."""
        return self._committed.get(group_id, {})

    def generation(self, group_id: str) -> dict[str, Any] | None:
        return self._generations.get(group_id)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, CommittedOffset]) -> None:
        """Store the *offsets* that a group commits. They are in the file when this method returns."""
        rows = [[*partition, *committed] for partition, committed in offsets.items()]
        self._record({"group": group_id, "commit": rows})

    def store_generation(self, group_id: str, generation: dict[str, Any]) -> None:
        """Store the *generation* that a group has reached by a rebalance."""
        self._record({"group": group_id, "generation": generation})

    def delete_group(self, group_id: str) -> None:
        self._record({"group": group_id, "deleted": True})

    def delete_topic(self, topic: str) -> None:
        """Delete the committed offsets of *topic*, which was deleted, so that a new topic of the same name
        has none."""
        if any(partition.topic == topic for group in self._committed.values() for partition in group):
            self._record({"topic": topic, "deleted": True})

    def close(self) -> None:
        os.close(self._fd)

    def _record(self, entry: dict[str, Any]) -> None:
        line = memoryview(_line(entry))
        size = os.fstat(self._fd).st_size
        try:
            while line:
                line = line[os.write(self._fd, line) :]
        except OSError:
            os.ftruncate(self._fd, size)  # the next start would ignore all lines after an incomplete one
            raise
        self._apply(entry)
        self._lines += 1
        live = sum(map(len, self._committed.values())) + len(self._generations)
        if self._lines > max(_MIN_LINES, _MAX_LINES_PER_ENTRY * live):
            self._compact()

    def _apply(self, entry: dict[str, Any]) -> None:
        group_id = entry.get("group")
        if group_id is None:
            for group in self._committed.values():
                for partition in [partition for partition in group if partition.topic == entry["topic"]]:
                    del group[partition]
        elif "commit" in entry:
            offsets = self._committed.setdefault(group_id, {})
            for topic, partition, *values in entry["commit"]:
                offsets[TopicPartition(topic, partition)] = CommittedOffset(*values)
        elif "generation" in entry:
            self._generations[group_id] = entry["generation"]
        else:
            self._committed.pop(group_id, None)
            self._generations.pop(group_id, None)

    def _load(self) -> None:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return
        valid = 0
        for line in data.splitlines(keepends=True):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                _logger.warning(
                    "%s: the last %d bytes of the file were cut off, because they are incomplete or invalid",
                    self._path,
                    len(data) - valid,
                )
                os.truncate(self._path, valid)
                return
            valid += len(line)
            self._lines += 1

    def _compact(self) -> None:
        lines = [
            _line(
                {
                    "group": group_id,
                    "commit": [[*partition, *committed] for partition, committed in group.items()],
                }
            )
            for group_id, group in self._committed.items()
            if group
        ]
        lines += [_line({"group": name, "generation": saved}) for name, saved in self._generations.items()]
        replace_file(self._path, b"".join(lines))
        os.close(self._fd)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._lines = len(lines)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"

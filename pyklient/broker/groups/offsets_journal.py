"""Committed offsets and settled groups, kept in a journal so that they outlive the broker.

The journal is a file of JSON lines, one for each commit, each settled generation and each deletion. It is
read once, at the start, where a last line cut short by a crash is dropped; and written anew when most of
it has been superseded.
"""

import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyklient.broker.data_directory import replace
from pyklient.topic_partition import TopicPartition

__all__ = ["Committed", "OffsetStore"]

_logger = logging.getLogger("pyklient.broker")

_LEAST_LINES: Final = 1_000
_GARBAGE_FACTOR: Final = 4


class Committed(NamedTuple):
    """A committed position."""

    offset: int
    leader_epoch: int
    metadata: str


class OffsetStore:
    """Group → partition → Committed, and group → its last settled generation (as plain JSON values)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._committed: dict[str, dict[TopicPartition, Committed]] = {}
        self._generations: dict[str, dict[str, Any]] = {}
        self._lines = 0
        self._load()
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    @property
    def groups(self) -> set[str]:
        """Groups that have left something behind."""
        return self._committed.keys() | self._generations.keys()

    def committed(self, group_id: str) -> Mapping[TopicPartition, Committed]:
        """All positions of a group (empty when there are none)."""
        return self._committed.get(group_id, {})

    def generation(self, group_id: str) -> dict[str, Any] | None:
        return self._generations.get(group_id)

    def commit(self, group_id: str, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Keep *offsets*; they are in the file when this returns."""
        rows = [[*partition, *position] for partition, position in offsets.items()]
        self._record({"group": group_id, "commit": rows})

    def settle(self, group_id: str, generation: dict[str, Any]) -> None:
        """Keep a group's settled generation."""
        self._record({"group": group_id, "generation": generation})

    def delete_group(self, group_id: str) -> None:
        self._record({"group": group_id, "deleted": True})

    def delete_topic(self, topic: str) -> None:
        """Forget all positions in a deleted topic: one of the same name starts with none."""
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
            os.ftruncate(self._fd, size)  # half a line would take all that follow along at the next start
            raise
        self._apply(entry)
        self._lines += 1
        live = sum(map(len, self._committed.values())) + len(self._generations)
        if self._lines > max(_LEAST_LINES, _GARBAGE_FACTOR * live):
            self._compact()

    def _apply(self, entry: dict[str, Any]) -> None:
        group_id = entry.get("group")
        if group_id is None:
            for group in self._committed.values():
                for partition in [partition for partition in group if partition.topic == entry["topic"]]:
                    del group[partition]
        elif "commit" in entry:
            positions = self._committed.setdefault(group_id, {})
            for topic, partition, *position in entry["commit"]:
                positions[TopicPartition(topic, partition)] = Committed(*position)
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
        sound = 0
        for line in data.splitlines(keepends=True):
            try:
                if not line.endswith(b"\n"):
                    raise ValueError
                self._apply(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError):
                _logger.warning("%s: %d bytes cut off the end", self._path, len(data) - sound)
                os.truncate(self._path, sound)
                return
            sound += len(line)
            self._lines += 1

    def _compact(self) -> None:
        lines = [
            _line(
                {
                    "group": group_id,
                    "commit": [[*partition, *position] for partition, position in group.items()],
                }
            )
            for group_id, group in self._committed.items()
            if group
        ]
        lines += [_line({"group": name, "generation": facts}) for name, facts in self._generations.items()]
        replace(self._path, b"".join(lines))
        os.close(self._fd)
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        self._lines = len(lines)


def _line(entry: dict[str, Any]) -> bytes:
    return json.dumps(entry, separators=(",", ":")).encode() + b"\n"

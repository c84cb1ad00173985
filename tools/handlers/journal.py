"""What handlers did, as they noted it, and whether that was allowed."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from pyklient.consumer.parallel import completed_offsets
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["Journal", "Where", "remembered"]

Where = tuple[int, int]
"""A partition and an offset."""


class _Line(NamedTuple):
    event: str
    where: Where
    key: str
    at: float


def remembered(stored: Mapping[TopicPartition, OffsetAndMetadata]) -> set[Where]:
    """Return the messages of which the commits *stored* tell that they are done."""
    found: set[Where] = set()
    for (_, partition), at in stored.items():
        found.update((partition, offset) for offset in range(at.offset))
        for run in completed_offsets.decode(at.offset, at.metadata):
            found.update((partition, offset) for offset in run)
    return found


class Journal:
    """The journal of several programs, each of which was started after the one before was killed.

    *keys* has the key of each message that was sent; an empty key means no key.
    """

    def __init__(self, path: Path, keys: Mapping[Where, str]) -> None:
        self._path = path
        path.touch()
        self._read = 0
        self._earlier: dict[Where, set[Where]] = {}
        behind: dict[tuple[int, str], set[Where]] = defaultdict(set)
        for where in sorted(keys):
            if key := keys[where]:
                self._earlier[where] = set(behind[where[0], key])
                behind[where[0], key].add(where)
        self.done: dict[Where, float] = {}
        """The messages that were handled, each with the time at which its handler last returned."""
        self.repeated: dict[Where, float] = {}
        """The messages that were handled again, each with the time at which its handler first returned."""

    @property
    def size(self) -> int:
        """The number of bytes that were written so far."""
        return self._path.stat().st_size

    def check(self, known: Collection[Where]) -> list[str]:
        """Read what the last program has written, and return what was wrong with it.

        *known* are the messages of which the program could know from the start that they were done.
        """
        with self._path.open() as file:
            file.seek(self._read)
            lines = [_parsed(line) for line in file]
            self._read = file.tell()
        problems: list[str] = []
        running: dict[str, Where] = {}
        for line in lines:
            where = f"message {line.where[0]}-{line.where[1]}"
            if line.event == "done":
                self.done[line.where] = line.at
                running.pop(line.key, None)
                continue
            if line.where in known:
                problems.append(f"{where} was handled again, although a commit told that it was done")
            elif line.where in self.done:
                self.repeated.setdefault(line.where, self.done[line.where])
            if line.key:
                missing = self._earlier[line.where] - self.done.keys()
                if missing:
                    problems.append(f"{where} was handled before {len(missing)} earlier messages of its key")
                if line.key in running:
                    problems.append(f"{where} was handled at the same time as another message of its key")
                running[line.key] = line.where
        return problems


def _parsed(line: str) -> _Line:
    event, partition, offset, key, at = line.rstrip("\n").split(" ")
    return _Line(event, (int(partition), int(offset)), key, float(at))

"""What the members of a group were handed out, and what the group committed meanwhile."""

import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import takewhile
from typing import NamedTuple

from pyklient import Admin, KafkaError, TopicPartition

__all__ = ["HandOut", "HandOuts", "OffsetsWatch"]

_MOST_SHOWN = 5


class HandOut(NamedTuple):
    """The time at which a member got a record."""

    at: float
    member: str


class HandOuts:
    """All records that members were handed out, by partition and offset. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of: dict[TopicPartition, dict[int, list[HandOut]]] = defaultdict(dict)
        self._in_order: dict[TopicPartition, list[HandOut]] = defaultdict(list)

    def add(self, partition: TopicPartition, offset: int, hand_out: HandOut) -> None:
        """Record that a member was handed out the record at *offset*."""
        with self._lock:
            self._of[partition].setdefault(offset, []).append(hand_out)
            self._in_order[partition].append(hand_out)

    def missing(self, counts: Mapping[TopicPartition, int]) -> list[str]:
        """Return a line for each partition of which not all records were handed out. *counts* are the numbers
        of records."""
        with self._lock:
            return [
                f"{each}: {count - len(self._of[each])} of {count} records were not handed out"
                for each, count in counts.items()
                if len(self._of[each]) < count
            ]

    def partitions_of(self, member: str) -> set[TopicPartition]:
        """Return the partitions whose last record was handed out to *member*."""
        with self._lock:
            return {each for each, of in self._in_order.items() if of[-1].member == member}

    def first_after(self, partitions: Iterable[TopicPartition], at: float, without: str) -> float | None:
        """Return the time by which other members than *without* had got a record of each of *partitions*.

        Records before *at* do not count. Return None if a partition has no record yet.
        """
        with self._lock:
            firsts = [
                min((each.at for each in self._since(where, at) if each.member != without), default=None)
                for where in partitions
            ]
        found = [each for each in firsts if each is not None]
        return max(found, default=at) if len(found) == len(firsts) else None

    def _since(self, partition: TopicPartition, at: float) -> Iterator[HandOut]:
        return takewhile(lambda each: each.at > at, reversed(self._in_order[partition]))

    def again_after_commit(self, watch: "OffsetsWatch") -> list[str]:
        """Return a line for each record that was handed out again after it had been committed."""
        with self._lock:
            found = [
                f"{partition}: {offset} was handed out to {each.member} after it was committed"
                for partition, of in self._of.items()
                for offset, times in of.items()
                for each in sorted(times)[1:]
                if watch.committed_by(partition, offset, each.at)
            ]
        more = [f"and {len(found) - _MOST_SHOWN} more records"] if len(found) > _MOST_SHOWN else []
        return found[:_MOST_SHOWN] + more


class OffsetsWatch:
    """Fetches the committed offsets of *group* all the time, and notes if one goes back."""

    def __init__(self, bootstrap: str, group: str) -> None:
        self._admin = Admin(bootstrap, client_id="watch", default_api_timeout_ms=20_000)
        self._group = group
        self._seen: dict[TopicPartition, tuple[list[float], list[int]]] = defaultdict(lambda: ([], []))
        self._deleted: set[str] = set()
        self._stopped = threading.Event()
        self.problems: list[str] = []
        self._thread = threading.Thread(target=self._run, name="offsets-watch", daemon=True)
        self._thread.start()

    def forget(self, topics: Collection[str]) -> None:
        """Do not look at *topics* any more, because they are deleted."""
        self._deleted.update(topics)

    def committed_by(self, partition: TopicPartition, offset: int, at: float) -> bool:
        """Return True if the record at *offset* had been committed at the time *at*."""
        times, offsets = self._seen[partition]
        before = bisect_left(times, at)
        return before > 0 and offsets[before - 1] > offset

    def committed(self) -> dict[TopicPartition, int]:
        """Return the newest committed offsets."""
        return {each: offsets[-1] for each, (_, offsets) in self._seen.items() if offsets}

    def stop(self) -> None:
        """Look once more, and stop."""
        self._stopped.set()
        self._thread.join(60)
        self._look()
        self._admin.close()

    def _run(self) -> None:
        while not self._stopped.wait(0.1):
            try:
                self._look()
            except KafkaError as error:
                if not error.retriable:
                    self.problems.append(f"the committed offsets could not be fetched: {error!r}")

    def _look(self) -> None:
        found = self._admin.group_offsets(self._group)
        now = time.monotonic()
        for where, stored in found.items():
            times, offsets = self._seen[where]
            if offsets and stored.offset < offsets[-1] and where.topic not in self._deleted:
                self.problems.append(
                    f"{where}: the committed offset went back from {offsets[-1]} to {stored.offset}"
                )
            if not offsets or stored.offset != offsets[-1]:
                times.append(now)
                offsets.append(stored.offset)

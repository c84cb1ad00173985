"""Offset syncs: which offset in the target cluster a record of a source partition has.

A mirror copies records one after the other, so a sync stands for a run of records: those from ``offset`` on
in the source partition have the offsets from ``target_offset`` on in the target partition. A new sync begins
where the offsets stop running in parallel, for example at records that compaction has removed, or at records
that are copied again after a crash.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["OffsetSync", "OffsetSyncs", "translated"]

_MOST_SYNCS: Final = 64
"""The largest number of syncs that are kept of each partition."""


class OffsetSync(NamedTuple):
    """A run of records that a mirror has copied: *record_count* records, from *offset* on in the source
    partition, and from *target_offset* on in the target partition."""

    offset: int
    target_offset: int
    record_count: int

    @property
    def end(self) -> int:
        """The offset in the source partition after the last record of the run."""
        return self.offset + self.record_count

    @property
    def target_end(self) -> int:
        """The offset in the target partition after the last record of the run."""
        return self.target_offset + self.record_count


def translated(syncs: Sequence[OffsetSync], offset: int) -> int:
    """Return the offset in the target partition for *offset*, a committed offset in the source partition.
    *syncs* are those of the partition, in the order of their offsets.

    Every record from *offset* on that was copied, or will be copied, has the result or a larger offset in the
    target partition. So a group that begins there skips nothing. If no sync is known up to *offset*, the
    result is 0, which stands for the start of the log.
    """
    found = next((each for each in reversed(syncs) if each.offset <= offset), None)
    if found is None:
        return 0
    # After the run there are no records, or none that were copied yet, up to the next sync.
    return found.target_offset + min(offset - found.offset, found.record_count)


class OffsetSyncs:
    """The syncs of one source partition, each in a slot with a number. One thread uses it.

    The slots are what is stored in the target cluster. Their number is limited: if there are too many syncs,
    every second one of the older half is dropped. An offset in a dropped run is translated to the end of the
    run before it, so nothing is skipped.
    """

    def __init__(self, stored: Mapping[int, OffsetSync] | None = None) -> None:
        self._slots: dict[int, OffsetSync] = dict(stored or {})
        self._changed: set[int] = set()
        self._again: list[OffsetSync] = []
        """The runs of records that are being copied again. They count when all records that were copied
        before have been copied again. Until then, some records have only their first copy."""

    @property
    def all(self) -> tuple[OffsetSync, ...]:
        """All syncs, in the order of their offsets."""
        return tuple(sorted(self._slots.values()))

    def note(self, offset: int, target_offset: int, record_count: int) -> None:
        """Record that *record_count* records from *offset* on were copied to the offsets from *target_offset*
        on."""
        run = OffsetSync(offset, target_offset, record_count)
        if any(each.target_end > target_offset for each in (*self._slots.values(), *self._again)):
            self._forget_all()  # the target topic was deleted and created again
        copied = max((each.end for each in self._slots.values()), default=offset)
        if offset >= copied:
            self._add(run)
            return
        if self._again and offset < self._again[-1].end:
            self._again.clear()  # the mirror has begun at an earlier offset once more
        if self._again and _follows(self._again[-1], run):
            self._again[-1] = _joined(self._again[-1], run)
        else:
            self._again.append(run)
            if len(self._again) > _MOST_SYNCS // 2:
                del self._again[1::2]
        if run.end >= copied:
            self._replace_copies()

    def _forget_all(self) -> None:
        for slot in list(self._slots):
            self._drop(slot)
        self._again.clear()

    def _replace_copies(self) -> None:
        """Forget the first copies of the records that were copied again."""
        again, self._again = self._again, []
        first = again[0].offset
        for slot, sync in list(self._slots.items()):
            if sync.offset >= first:
                self._drop(slot)
            elif sync.end > first:
                self._put(slot, sync._replace(record_count=first - sync.offset))
        for run in again:
            self._add(run)

    def _add(self, run: OffsetSync) -> None:
        """Add *run*, whose records come after all others."""
        last = max(self._slots, key=self._slots.__getitem__, default=None)
        if last is not None and _follows(self._slots[last], run):
            self._put(last, _joined(self._slots[last], run))
            return
        if len(self._slots) >= _MOST_SYNCS:
            self._thin_out()
        self._put(next(slot for slot in range(_MOST_SYNCS) if slot not in self._slots), run)

    def pop_changes(self) -> dict[int, OffsetSync | None]:
        """Return the slots that have changed since the last call, with their syncs. None stands for an empty
        slot."""
        changed, self._changed = self._changed, set()
        return {slot: self._slots.get(slot) for slot in sorted(changed)}

    def keep_changes(self, slots: Iterable[int]) -> None:
        """Record that *slots*, which ``pop_changes`` has returned, were not stored."""
        self._changed.update(slots)

    def _thin_out(self) -> None:
        in_order = sorted(self._slots, key=self._slots.__getitem__)
        for slot in in_order[1 : _MOST_SYNCS // 2 : 2]:
            self._drop(slot)

    def _put(self, slot: int, sync: OffsetSync) -> None:
        self._slots[slot] = sync
        self._changed.add(slot)

    def _drop(self, slot: int) -> None:
        del self._slots[slot]
        self._changed.add(slot)


def _follows(before: OffsetSync, run: OffsetSync) -> bool:
    """Return True if *run* continues *before* without a gap in both partitions."""
    return (before.end, before.target_end) == (run.offset, run.target_offset)


def _joined(before: OffsetSync, run: OffsetSync) -> OffsetSync:
    return before._replace(record_count=before.record_count + run.record_count)

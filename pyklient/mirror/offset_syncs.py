"""Offset syncs, which tell the offset that a record of a source partition has in the target cluster.

A mirror copies records one after the other, so a sync stands for a range of consecutive records. In the
source partition, the range begins at ``offset``. In the target partition, it begins at ``target_offset``. A
new sync begins where the distance between the two offsets changes, for example at records that compaction has
removed, or at records that are copied again after a crash.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

__all__ = ["OffsetSync", "OffsetSyncs", "translated"]

_MOST_SYNCS: Final = 64
"""The largest number of offset syncs (pairs of source and target offsets) that are kept of each partition."""


class OffsetSync(NamedTuple):
    """A range of records that a mirror has copied: *record_count* records, from *offset* on in the source
    partition, and from *target_offset* on in the target partition."""

    offset: int
    target_offset: int
    record_count: int

    @property
    def end(self) -> int:
        """The offset in the source partition after the last record of the range."""
        return self.offset + self.record_count

    @property
    def target_end(self) -> int:
        """The offset in the target partition after the last record of the range."""
        return self.target_offset + self.record_count


def translated(syncs: Sequence[OffsetSync], offset: int) -> int:
    """Return the offset in the target partition for *offset*, a committed offset in the source partition.
    *syncs* are those of the partition, in the order of their offsets.

    Each record from *offset* on has, or will have, a copy in the target partition at the returned offset or
    after it. So a group that begins at the returned offset skips nothing. If no sync begins at *offset* or
    before it, return 0, which stands for the start of the log.
    """
    found = next((each for each in reversed(syncs) if each.offset <= offset), None)
    if found is None:
        return 0
    # After the range there are no records, or none that were copied yet, up to the next sync.
    return found.target_offset + min(offset - found.offset, found.record_count)


class OffsetSyncs:
    """The syncs of one source partition, each in a numbered slot. Only one thread uses this object.

    The mirror stores the slots in the target cluster. Their number is limited: if there are too many syncs,
    every second sync of the older half is dropped. An offset in the range of a dropped sync is translated to
    the end of the range before it, so nothing is skipped.

    The target may have *unknown copies*: copies for which no sync was stored. A member of the mirror has made
    them before it was killed, or before it lost the partition. They are copies, without gaps, of the records
    after the last sync, or after the offset at which this member begins. This member copies these records
    again. It has copied all of them when one of these is true:

    - It has copied as many records after the last sync as there are unknown copies.
    - It has copied all records before *horizon*: the offset at which the source partition ended when this
      member began.

    Until then, some records have only an unknown copy, and new syncs are held back.
    """

    def __init__(self, stored: Mapping[int, OffsetSync] | None = None, horizon: int | None = None) -> None:
        self._slots: dict[int, OffsetSync] = dict(stored or {})
        self._changed: set[int] = set()
        self._horizon = horizon
        self._held: list[OffsetSync] = []
        """The syncs that are held back while some records have only an unknown copy."""
        self._position = 0
        """The source offset after the record that was copied last."""
        self._copied_end = max((each.end for each in self._slots.values()), default=0)
        """The source offset up to which records had been copied when this member began to copy, or when it
        last began to copy records again from an earlier offset. New syncs are held back until ``_position``
        has reached this offset."""
        self._target_end = max((each.target_end for each in self._slots.values()), default=0)
        """The target offset after the last copy whose offset is known."""
        self._unknown = 0
        """The number of unknown copies before ``_target_end``."""
        self._counted = 0
        """The number of records with a source offset of ``_copied_end`` or more that this member has copied.
        When it copies records again from an earlier offset, the count begins at 0."""

    @property
    def all(self) -> tuple[OffsetSync, ...]:
        """All syncs of the partition, in the order of their source offsets."""
        return tuple(sorted(self._slots.values()))

    def note(self, offset: int, target_offset: int, record_count: int) -> None:
        """Remember that *record_count* records were copied. Their offsets begin at *offset*, and the offsets
        of the copies begin at *target_offset*."""
        sync = OffsetSync(offset, target_offset, record_count)
        if target_offset < self._target_end:
            self.forget_all()  # the target topic was deleted and created again
        if offset < self._position:
            self._go_back()
        self._unknown += target_offset - self._target_end
        self._counted += max(0, sync.end - max(offset, self._copied_end))
        self._position, self._target_end = sync.end, sync.target_end
        self._hold(sync)
        if self._position >= self._copied_end and self._has_all_copies():
            self._release()

    def forget_all(self) -> None:
        """Forget all syncs of the partition, because the target topic was deleted and created again."""
        for slot in list(self._slots):
            self._drop(slot)
        self._held.clear()
        self._position = self._copied_end = self._target_end = self._unknown = self._counted = 0

    def _go_back(self) -> None:
        """Prepare for syncs that begin before ``_position``, because the mirror copies records again from an
        earlier source offset."""
        if not self._held:
            self._unknown = 0
        self._held.clear()
        self._copied_end, self._counted = max(self._copied_end, self._position), 0

    def _has_all_copies(self) -> bool:
        """Return True if all records that have unknown copies were copied again."""
        return self._counted >= self._unknown or (
            self._horizon is not None and self._position >= self._horizon
        )

    def _hold(self, sync: OffsetSync) -> None:
        if self._held and _follows(self._held[-1], sync):
            self._held[-1] = _joined(self._held[-1], sync)
            return
        self._held.append(sync)
        if len(self._held) > _MOST_SYNCS // 2:
            del self._held[1::2]

    def _release(self) -> None:
        """Replace the syncs of earlier copies by the syncs that were held back, because all records that have
        unknown copies were copied again."""
        held, self._held = self._held, []
        first = held[0].offset
        if first < self._copied_end:
            for slot, sync in list(self._slots.items()):
                if sync.offset >= first:
                    self._drop(slot)
                elif sync.end > first:
                    self._put(slot, sync._replace(record_count=first - sync.offset))
        for sync in held:
            self._add(sync)

    def _add(self, sync: OffsetSync) -> None:
        """Add *sync*, whose records come after the records of all other syncs. If the largest number of syncs
        is reached, first drop some."""
        last = max(self._slots, key=self._slots.__getitem__, default=None)
        if last is not None and _follows(self._slots[last], sync):
            self._put(last, _joined(self._slots[last], sync))
            return
        if len(self._slots) >= _MOST_SYNCS:
            self._thin_out()
        self._put(next(slot for slot in range(_MOST_SYNCS) if slot not in self._slots), sync)

    def pop_changes(self) -> dict[int, OffsetSync | None]:
        """Return the slots that have changed since the last call, each with its sync, so that the caller
        stores them. None stands for an empty slot."""
        changed, self._changed = self._changed, set()
        return {slot: self._slots.get(slot) for slot in sorted(changed)}

    def store_all(self) -> None:
        """Let ``pop_changes`` return all slots, because all syncs have to be stored again."""
        self._changed.update(self._slots)

    def keep_changes(self, slots: Iterable[int]) -> None:
        """Let ``pop_changes`` return *slots* again, because their syncs could not be stored."""
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


def _follows(before: OffsetSync, sync: OffsetSync) -> bool:
    """Return True if the records of *sync* directly follow those of *before*, in the source partition and in
    the target partition."""
    return (before.end, before.target_end) == (sync.offset, sync.target_offset)


def _joined(before: OffsetSync, sync: OffsetSync) -> OffsetSync:
    return before._replace(record_count=before.record_count + sync.record_count)

"""Offset syncs: no translation skips a record, however often records are copied again."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.mirror.offset_syncs import OffsetSync, OffsetSyncs, translated


def test_records_that_follow_each_other_on_both_sides_are_one_sync() -> None:
    syncs = OffsetSyncs()
    syncs.note(100, 7, 10)
    syncs.note(110, 17, 5)
    assert syncs.all == (OffsetSync(100, 7, 15),)
    assert [translated(syncs.all, offset) for offset in (99, 100, 104, 115, 400)] == [0, 7, 11, 22, 22]


def test_records_that_were_copied_again_are_translated_to_their_last_copy() -> None:
    syncs = OffsetSyncs()
    syncs.note(0, 0, 100)
    syncs.note(80, 100, 40)
    assert syncs.all == (OffsetSync(0, 0, 80), OffsetSync(80, 100, 40))
    assert [translated(syncs.all, offset) for offset in (79, 80, 90, 120)] == [79, 100, 110, 140]


def test_records_that_are_being_copied_again_have_their_first_copy() -> None:
    syncs = OffsetSyncs()
    syncs.note(0, 0, 100)
    syncs.note(80, 100, 10)
    assert [translated(syncs.all, offset) for offset in (80, 95)] == [80, 95]
    syncs.note(90, 110, 10)
    assert [translated(syncs.all, offset) for offset in (80, 95)] == [100, 115]


def test_only_what_has_changed_is_stored() -> None:
    syncs = OffsetSyncs({0: OffsetSync(0, 0, 10), 3: OffsetSync(20, 10, 5)})
    assert syncs.pop_changes() == {}
    syncs.note(25, 15, 5)
    assert syncs.pop_changes() == {3: OffsetSync(20, 10, 10)}
    syncs.note(5, 20, 30)
    changes = syncs.pop_changes()
    assert changes == {0: OffsetSync(0, 0, 5), 1: OffsetSync(5, 20, 30), 3: None}
    syncs.keep_changes(changes)
    assert syncs.pop_changes() == changes


def test_a_target_topic_that_was_created_again_has_no_old_records() -> None:
    syncs = OffsetSyncs({0: OffsetSync(0, 0, 1000)})
    syncs.note(1000, 0, 10)
    assert [translated(syncs.all, offset) for offset in (500, 1000, 1010)] == [0, 0, 10]
    assert syncs.pop_changes() == {0: OffsetSync(1000, 0, 10)}


def test_copies_that_a_crash_has_left_unknown_are_not_skipped() -> None:
    """The first member has copied 100 records, and stored the sync of 50. The second one begins at 50."""
    syncs = OffsetSyncs({0: OffsetSync(0, 0, 50)}, horizon=1_000)
    syncs.note(50, 100, 10)
    assert [translated(syncs.all, offset) for offset in (40, 70)] == [40, 50]
    syncs.note(60, 110, 39)
    assert translated(syncs.all, 98) == 50
    syncs.note(99, 149, 1)
    assert syncs.all == (OffsetSync(0, 0, 50), OffsetSync(50, 100, 50))


def test_copies_before_the_first_sync_are_unknown() -> None:
    syncs = OffsetSyncs()
    syncs.note(0, 30, 20)
    assert not syncs.all
    syncs.note(20, 50, 10)
    assert syncs.all == (OffsetSync(0, 30, 30),)


def test_nothing_is_held_back_behind_the_records_that_the_source_had_at_the_begin() -> None:
    """The target has a million older records of other producers, and these go on."""
    syncs = OffsetSyncs(horizon=10)
    syncs.note(0, 1_000_000, 9)
    assert not syncs.all
    syncs.note(9, 1_000_009, 1)
    syncs.note(10, 2_000_000, 1)
    assert syncs.all == (OffsetSync(0, 1_000_000, 10), OffsetSync(10, 2_000_000, 1))


class _Clusters:
    """A source with gaps in its offsets, and a target. The members of a mirror may be killed between any two
    steps, and records of former members may still arrive in the target."""

    def __init__(self, draw: Callable[..., Any]) -> None:
        self.draw = draw
        gaps = draw(
            st.lists(st.sampled_from([0, 0, 0, 1, 5]), min_size=60, max_size=60), "gaps of the source"
        )
        self.source = [number + gap for number, gap in enumerate(accumulate(gaps))]
        self.visible = 0
        """The number of records that are in the source by now."""
        self.copied: list[int] = []
        """The source offsets of the records in the target, -1 for a record of another producer."""
        self.committed = 0
        self.slots: dict[int, OffsetSync | None] = {}
        self.late: list[list[int]] = []
        """The records of former members that have not arrived yet."""
        self.begin()

    def begin(self) -> None:
        """Let a new member begin at the committed record."""
        self.index = self.committed
        self.unnoted: list[tuple[int, int]] = []
        self.visible = self.draw(st.integers(self.visible, len(self.source)), "visible")
        end = self.source[self.visible - 1] + 1 if self.visible else 0
        horizon = self.draw(st.sampled_from([None, end]), "horizon")
        stored = {slot: sync for slot, sync in self.slots.items() if sync is not None}
        self.syncs = OffsetSyncs(stored, horizon)

    def copy(self) -> None:
        end = min(self.index + self.draw(st.integers(1, 25), "records"), len(self.source))
        for offset in self.source[self.index : end]:
            self.unnoted.append((offset, len(self.copied)))
            self.copied.append(offset)
        self.index, self.visible = end, max(self.visible, end)

    def note(self) -> None:
        count = self.draw(st.integers(0, len(self.unnoted)), "noted")
        for offset, target_offset in self.unnoted[:count]:
            self.syncs.note(offset, target_offset, 1)
        del self.unnoted[:count]

    def commit(self) -> None:
        self.committed = self.index - len(self.unnoted)

    def store(self) -> None:
        """Commit, and store the syncs, or only the first ones."""
        self.commit()
        changes = self.syncs.pop_changes()
        for slot in sorted(changes)[: self.draw(st.sampled_from([1, 2, 100]), "slots")]:
            self.slots[slot] = changes.pop(slot)
        self.syncs.keep_changes(changes)

    def kill(self) -> None:
        self.begin()

    def lose(self) -> None:
        """Let another member begin, while records of this one are on their way."""
        end = self.draw(st.integers(self.index, self.visible), "on their way")
        self.late.append(self.source[self.index : end])
        self.begin()

    def arrive(self) -> None:
        for each in self.late:
            count = self.draw(st.integers(0, len(each)), "arriving")
            self.copied += each[:count]
            del each[:count]

    def write(self) -> None:
        """Let another producer write to the target."""
        self.copied += [-1] * self.draw(st.integers(1, 30), "other records")

    def back(self) -> None:
        """Let the member read again from an earlier record."""
        for offset, target_offset in self.unnoted:
            self.syncs.note(offset, target_offset, 1)
        self.unnoted.clear()
        self.index = self.draw(st.integers(0, self.index), "earlier record")

    def reset(self) -> None:
        """Let an administrator move the mirror back."""
        self.committed = self.draw(st.integers(0, self.committed), "new committed offset")
        self.begin()


_STEPS = [
    *["copy", "note"] * 3,
    "store",
    "store",
    "commit",
    "kill",
    "lose",
    "arrive",
    "write",
    "reset",
    "back",
]


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_no_translation_skips_a_record(data: st.DataObject) -> None:
    """At any moment, whatever happens to the members of the mirror."""
    clusters = _Clusters(data.draw)
    for step in data.draw(st.lists(st.sampled_from(_STEPS), min_size=10, max_size=40), "steps"):
        getattr(clusters, step)()
        last_copies = {offset: at for at, offset in enumerate(clusters.copied) if offset >= 0}
        stored = sorted(sync for sync in clusters.slots.values() if sync is not None)
        for syncs in (stored, clusters.syncs.all):
            last_start = len(clusters.copied)
            for committed in sorted({*last_copies, 410}, reverse=True):
                last_start = min(last_start, last_copies.get(committed, last_start))
                assert translated(syncs, committed) <= last_start
        assert len(clusters.syncs.all) <= 64


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_after_a_crash_only_the_records_of_one_commit_interval_come_again(data: st.DataObject) -> None:
    """A mirror that is killed again and again, and then copies on, knows the offset of each later record."""
    clusters = _Clusters(data.draw)
    for _ in range(data.draw(st.integers(0, 12), "crashes")):
        for step in ("copy", "note", "store", "copy", "kill"):
            getattr(clusters, step)()
    clusters.copy()
    unknown = len(clusters.copied)
    clusters.source += range(500, 502 + unknown)
    clusters.index = min(clusters.index, len(clusters.source))
    while clusters.index < len(clusters.source):
        clusters.copy()
    for offset, target_offset in clusters.unnoted:
        clusters.syncs.note(offset, target_offset, 1)
    assert translated(clusters.syncs.all, 501 + unknown) == len(clusters.copied) - 1

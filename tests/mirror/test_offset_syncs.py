"""Offset syncs: no translation skips a record, however often records are copied again."""

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
    syncs.note(5, 30, 30)
    changes = syncs.pop_changes()
    assert changes == {0: OffsetSync(0, 0, 5), 1: OffsetSync(5, 30, 30), 3: None}
    syncs.keep_changes(changes)
    assert syncs.pop_changes() == changes


def test_a_target_topic_that_was_created_again_has_no_old_records() -> None:
    syncs = OffsetSyncs({0: OffsetSync(0, 0, 1000)})
    syncs.note(1000, 0, 10)
    assert [translated(syncs.all, offset) for offset in (500, 1000, 1010)] == [0, 0, 10]
    assert syncs.pop_changes() == {0: OffsetSync(1000, 0, 10)}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_translation_skips_a_record(data: st.DataObject) -> None:
    """A mirror copies a log with gaps, and begins again at random earlier offsets, as after crashes."""
    source = sorted(data.draw(st.sets(st.integers(0, 400), min_size=1), "offsets of the source"))
    copied: list[int] = []
    syncs = OffsetSyncs()
    slots: dict[int, OffsetSync | None] = {}
    for _ in range(data.draw(st.integers(1, 120), "runs")):
        first = data.draw(st.integers(0, len(source) - 1), "first")
        if copied:
            first = min(first, source.index(copied[-1]) + 1)
        for offset in source[first : first + data.draw(st.integers(1, 30), "length")]:
            syncs.note(offset, len(copied), 1)
            copied.append(offset)
        for slot, sync in syncs.pop_changes().items():
            slots[slot] = sync
        if data.draw(st.booleans(), "another member continues"):
            syncs = OffsetSyncs({slot: sync for slot, sync in slots.items() if sync is not None})
    committed = data.draw(st.integers(0, 410), "committed")
    start = translated(syncs.all, committed)
    wanted = {offset for offset in copied if offset >= committed}
    assert wanted <= set(copied[start:])
    assert len(syncs.all) <= 64

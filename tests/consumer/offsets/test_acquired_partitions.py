"""What is known about the saves of one stream, in the orders of events that are rare with brokers."""

import pytest

from pyklient.consumer.commit.offset_storages.acquired_partitions import AcquiredPartitions, Save
from pyklient.consumer.consumed_positions import Position
from pyklient.errors import OffsetStoreFencedError
from pyklient.offset_stores import PositionChange, StoredPosition
from pyklient.topic_partition import TopicPartition

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def acquired(*partitions: TopicPartition) -> AcquiredPartitions:
    """Return *partitions*, which were acquired with epoch 1 at offset 0."""
    ours = AcquiredPartitions()
    ours.begin(dict.fromkeys(partitions, StoredPosition(0, 1)), {})
    return ours


def save(ours: AcquiredPartitions, handed: dict[TopicPartition, int], *reads: TopicPartition) -> Save:
    """Save the positions in *handed*, with a store that accepts everything."""
    positions = {each: Position(offset, 1) for each, offset in handed.items()}
    saved = Save(0, positions, ours.changes(positions, reads))
    ours.saved(saved)
    return saved


def test_the_next_save_checks_one_offset_of_a_save_that_no_change_confirms() -> None:
    ours = acquired(ZERO, ONE)
    first = save(ours, {ZERO: 5, ONE: 6}, ZERO, ONE)
    assert save(ours, {ZERO: 5, ONE: 6}, ONE).changes == {ONE: PositionChange(1, 6, 6)}
    assert first.confirmed
    assert save(ours, {ZERO: 5, ONE: 6}, ZERO, ONE).changes == {}


def test_a_change_that_confirms_the_last_save_needs_no_check_beside_it() -> None:
    ours = acquired(ZERO, ONE)
    first = save(ours, {ZERO: 5, ONE: 6}, ZERO, ONE)
    assert save(ours, {ZERO: 8, ONE: 6}, ZERO, ONE).changes == {ZERO: PositionChange(1, 5, 8)}
    assert first.confirmed
    assert save(ours, {ZERO: 8, ONE: 9}, ZERO, ONE).changes == {
        ZERO: PositionChange(1, 8, 8),
        ONE: PositionChange(1, 6, 9),
    }


def test_a_partition_that_nobody_else_has_acquired_confirms_the_last_save() -> None:
    ours = acquired(ZERO, ONE)
    first = save(ours, {ZERO: 5, ONE: 6}, ZERO, ONE)
    handed = {ZERO: Position(5, 1), ONE: Position(6, 1)}
    ours.begin({ZERO: StoredPosition(5, 2)}, handed)  # while another member gets the other partition
    assert first.confirmed
    assert ours.changes(handed, [ZERO]) == {}
    ours.begin({ONE: StoredPosition(6, 4)}, handed)  # which gives it back
    assert ours.changes(handed, [ZERO, ONE]) == {}


@pytest.mark.parametrize("stored", [StoredPosition(5, 3), StoredPosition(0, 2), StoredPosition(7, 2)])
def test_a_save_that_may_have_been_rolled_back_makes_its_partition_outdated(stored: StoredPosition) -> None:
    ours = acquired(ZERO)
    first = save(ours, {ZERO: 5}, ZERO)
    handed = {ZERO: Position(5, 1)}
    ours.begin({ZERO: stored}, handed)
    assert not first.confirmed
    for _ in range(2):
        with pytest.raises(
            OffsetStoreFencedError, match="t-0 were not saved, because the partitions were assigned"
        ):
            ours.changes(handed, [ZERO])
        ours.begin({ZERO: stored._replace(epoch=stored.epoch + 1)}, handed)  # a rebalance does not mend it


def test_nothing_is_recorded_of_a_save_whose_partition_was_acquired_again_meanwhile() -> None:
    ours = acquired(ZERO)
    handed = {ZERO: Position(5, 1)}
    late = Save(0, handed, ours.changes(handed, [ZERO]))
    ours.begin({ZERO: StoredPosition(0, 2)}, {})
    ours.saved(late)
    assert (ours.of[ZERO].begins, ours.of[ZERO].done) == (0, 0)


def test_no_position_is_saved_that_is_before_the_stored_offset() -> None:
    ours = acquired(ZERO)
    ours.begin({ZERO: StoredPosition(9, 2)}, {})
    with pytest.raises(OffsetStoreFencedError, match=r"are before the stored positions.* call reset\(\)"):
        ours.changes({ZERO: Position(5, 1)}, [ZERO])


def test_seek_back_over_a_save_that_may_have_been_rolled_back_prevents_the_next_save() -> None:
    ours = acquired(ZERO, ONE)
    save(ours, {ZERO: 5}, ZERO, ONE)
    ours.of[ZERO].seek(Position(5, 1), 0)
    with pytest.raises(OffsetStoreFencedError, match=r"seek\(\) went back"):
        ours.changes({ZERO: Position(0, 1), ONE: Position(3, 1)}, [ZERO, ONE])


def test_records_that_are_no_messages_need_no_save() -> None:
    ours = acquired(ZERO)
    save(ours, {ZERO: 5}, ZERO)
    handed = {ZERO: Position(7, 1, after_message=5)}
    assert ours.changes(handed, [ZERO]) == {ZERO: PositionChange(1, 5, 5)}
    ours.begin({ZERO: StoredPosition(5, 2)}, handed)
    assert ours.changes(handed, [ZERO]) == {}

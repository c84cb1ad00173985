"""Ownership of partitions from generation to generation, without a group."""

from pyklient.consumer.owned_partitions import MemberIdentity, Ownership
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_partition_is_held_since_the_first_of_the_generations_that_gave_it_without_a_gap() -> None:
    ownership = Ownership()
    held: dict[int, dict[TopicPartition, int]] = {}
    for generation, partitions in {4: [T0], 5: [T0, T1], 7: [T0, T1], 8: [T1]}.items():
        before = ownership.assignment
        ownership.revoke(before.partitions if before is not None else ())
        ownership.begin(ownership.after(MemberIdentity(generation, "m"), dict.fromkeys(partitions)))
        assert ownership.assignment is not None
        held[generation] = {each: owned.since for each, owned in ownership.assignment.partitions.items()}
    # In generation 6 another member may have had both.
    assert held == {4: {T0: 4}, 5: {T0: 4, T1: 5}, 7: {T0: 7, T1: 7}, 8: {T1: 7}}


def test_what_is_not_revoked_stays_owned_as_it_is_when_more_is_assigned() -> None:
    ownership = Ownership()
    ownership.begin(ownership.after(MemberIdentity(1, "m"), {T0: OffsetAndMetadata(7), T1: None}))
    assert ownership.assignment is not None
    stays = ownership.assignment.partitions[T0]
    (revoked,) = ownership.revoke([T1], MemberIdentity(2, "m"))
    assert (revoked.partition, revoked.active, stays.active) == (T1, False, True)
    assert ownership.assignment.identity.generation == 2
    assert ownership.assignment.holds(T1, 1), "its offsets may still be committed"
    ownership.begin(ownership.after(MemberIdentity(3, "m"), {}))
    assert ownership.assignment.partitions == {T0: stays}
    assert (stays.generation, stays.since, stays.start) == (1, 1, 7)


def test_nothing_is_owned_after_the_group_was_left() -> None:
    ownership = Ownership()
    ownership.begin(ownership.after(MemberIdentity(1, "m"), {T0: None}))
    ownership.leave()
    assert ownership.assignment is not None
    assert not ownership.assignment.holds(T0, 1)
    assert ownership.rebalancing

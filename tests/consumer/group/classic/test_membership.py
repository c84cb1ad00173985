"""A member's assignments from generation to generation, without a coordinator."""

from typing import Any

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.classic.membership import KafkaMembership
from pyklient.consumer.group.membership import Assignment
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class NoOffsets:
    """A client for which no group has committed anything, and whose heartbeats change nothing."""

    def play(self, dialogue: Any, timeout: float) -> dict[TopicPartition, OffsetAndMetadata | None] | None:
        dialogue.close()
        return {T0: None, T1: None} if dialogue.__name__ == "fetch_offsets" else None

    def pause(self, seconds: float) -> None: ...


class Owner:
    """Takes whatever it is given."""

    def prepare(self, assignment: Assignment) -> None: ...

    def take(self, assignment: Assignment) -> None: ...


def test_a_partition_is_held_since_the_first_of_the_generations_that_gave_it_without_a_gap() -> None:
    client: Any = NoOffsets()
    membership = KafkaMembership(client, ConsumerConfig.from_options({"group_id": "g"}), lambda _topics: None)
    owner: Any = Owner()
    membership._owner = owner
    membership._rebalance_thread.thread.start()
    held: dict[int, dict[TopicPartition, int]] = {}
    for generation, partitions in {4: [T0], 5: [T0, T1], 7: [T0, T1], 8: [T1]}.items():
        membership._member.generation = generation
        membership._take(partitions)
        assert membership.assignment is not None
        held[generation] = dict(membership.assignment.held_since)
    membership._rebalance_thread.end()
    membership._rebalance_thread.thread.join(10)
    # In generation 6 another member may have had both.
    assert held == {4: {T0: 4}, 5: {T0: 4, T1: 5}, 7: {T0: 7, T1: 7}, 8: {T1: 7}}

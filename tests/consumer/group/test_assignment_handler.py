"""The partitions that are read if the membership fails during an assignment, or if a start is not found."""

import threading
from collections.abc import Callable, Collection
from typing import Any

import pytest

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_committer import OffsetCommitter
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.rebalance_listener import ConsumerRebalanceListener
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.owned_partitions import MemberIdentity, Ownership
from pyklient.consumer.start_points import StartPoints
from pyklient.errors import KafkaError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.group.by_hand import DictionaryStore
from tests.consumer.offsets.test_looked_up_starts import Cursors
from tests.consumer.stream.bench import Bench

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Interrupted(ConsumerRebalanceListener):
    """A rebalance listener, and the calls that it gets. It calls ``then`` while partitions are assigned."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.then: Callable[[], None] = lambda: None

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append("assigned")
        self.then()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append("revoked")

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append("lost")


class InterruptedStore(DictionaryStore):
    """An OffsetStorage that calls ``then`` while it fetches offsets."""

    then: Callable[[], None] = staticmethod(lambda: None)

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        self.then()
        return super().fetch(partitions, timeout)


class InterruptedOwnership(Ownership):
    """An Ownership that calls ``then`` just before a new assignment begins."""

    then: Callable[[], None] = staticmethod(lambda: None)

    def begin(self, assignment: Any) -> None:
        self.then()
        super().begin(assignment)


class InterruptedChoice(StreamChoice):
    """A StreamChoice that calls ``then`` when it has chosen, just before the listener is told."""

    then: Callable[[], None] = staticmethod(lambda: None)

    def choose(self, *arguments: Any) -> None:
        super().choose(*arguments)
        self.then()


@pytest.mark.parametrize(
    ("step", "told"),
    [
        ("store", []),
        ("ownership", []),
        ("choice", ["assigned", "lost"]),
        ("listener", ["assigned", "lost"]),
    ],
)
def test_a_member_whose_group_fenced_it_while_partitions_were_assigned_reads_none_of_them(
    step: str, told: list[str]
) -> None:
    bench = Bench()
    fetchers: Any = Cursors()
    parts: dict[str, Any] = {
        "store": InterruptedStore(),
        "ownership": InterruptedOwnership(),
        "choice": InterruptedChoice(Subscription({"t": 1}), {"t": [bench.stream]}),
        "listener": Interrupted(),
    }
    ownership, store = parts["ownership"], parts["store"]
    handler = AssignmentHandler(
        ConsumerConfig(),
        parts["choice"],
        fetchers,
        ownership,
        store,
        OffsetCommitter(ownership, store, [bench.stream], lambda _topic: 2),
        parts["listener"],
    )
    parts[step].then = lambda: handler.fail(KafkaError("this member is fenced"))
    handler.assigned([ZERO], MemberIdentity(2, "m"))
    handler.tell_all_lost()
    assert fetchers.cursors == {}
    assert parts["listener"].told == told
    assert all(not owned.active and owned.lost for owned in _owned(ownership))


def test_a_thread_counts_as_changing_the_assignment_until_its_own_change_ends() -> None:
    ownership, entered, leave = Ownership(), threading.Event(), threading.Event()

    def change() -> None:
        with ownership.changing():
            entered.set()
            leave.wait(10)

    other = threading.Thread(target=change)
    with ownership.changing():
        other.start()
        assert entered.wait(30)
        assert ownership.changes_here()
        with ownership.changing():  # a listener closes the connector
            pass
        assert ownership.changes_here()
        leave.set()
        other.join(10)
        assert ownership.changes_here()
    assert not ownership.changes_here()


class OneOffline(Cursors):
    """A FetcherManager that cannot find the offset of a start point of t-1 now."""

    def find_starts(self, points: Any, timeout: float) -> dict[TopicPartition, int]:
        return {each: 7 for each in points if each != ONE}


def test_a_partition_whose_start_point_cannot_be_found_now_is_looked_up_later_and_the_others_are_read() -> (
    None
):
    bench, ownership, store = Bench(), Ownership(), DictionaryStore({ONE: OffsetAndMetadata(3)})
    fetchers: Any = OneOffline()
    start = StartPoints("end", replaces_committed=True)
    handler = AssignmentHandler(
        ConsumerConfig(),
        StreamChoice(Subscription({"t": 1}, start=start), {"t": [bench.stream]}),
        fetchers,
        ownership,
        store,
        OffsetCommitter(ownership, store, [bench.stream], lambda _topic: 2),
        None,
    )
    handler.assigned([ZERO, ONE], MemberIdentity(2, "m"))
    zero, one = fetchers.cursors[0], fetchers.cursors[1]
    assert (zero.position, zero.start_point) == (7, None)
    assert (one.position, one.start_point) == (None, "end"), "not the committed offset"


def _owned(ownership: Ownership) -> list[Any]:
    return [] if ownership.assignment is None else list(ownership.assignment.partitions.values())

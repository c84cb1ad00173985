"""Commits of a connector, with a store that answers as the test requires: without a broker and a group."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future

import pytest

from pyklient.consumer.commit.offset_committer import OffsetCommitter
from pyklient.consumer.commit.offset_storages.no_offset_storage import NoOffsetStorage
from pyklient.consumer.commit.offset_storages.offset_storage import Rejection, Rejections
from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.owned_partitions import Assignment, MemberIdentity, OwnedPartition, Ownership
from pyklient.error_codes import ErrorCode
from pyklient.errors import CommitError, broker_error
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.stream.bench import Bench, batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
OUTDATED = (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID)


def assignment(generation: int, since: dict[TopicPartition, int]) -> Assignment:
    owned = {each: OwnedPartition(each, generation=generation, since=at) for each, at in since.items()}
    return Assignment(MemberIdentity(generation, "m"), owned)


class Store(NoOffsetStorage):
    """An OffsetStorage whose commits end with the codes in ``answers`` in turn, and after that without an
    error. ``asked`` holds the positions of each commit."""

    def __init__(self) -> None:
        self.answers: list[dict[TopicPartition, int]] = []
        self.asked: list[dict[TopicPartition, int]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        self.once = False
        self.timeouts: list[float] = []

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        self.once = once
        self.timeouts.append(timeout)
        self.asked.append({each: at.offset for each, at in positions.items()})
        codes = self.answers.pop(0) if self.answers else {}
        self.meanwhile()
        return {
            each: Rejection(broker_error(code), outdated=code in OUTDATED) for each, code in codes.items()
        }

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections]":
        done: Future[Rejections] = Future()
        done.set_result(self.commit(positions, identity, 0))
        return done


class Group:
    """A stream that has handed out two messages of each of its two partitions, and its commits."""

    def __init__(self) -> None:
        self.bench = Bench(timeout=0.05)
        self.store, self.ownership = Store(), Ownership()
        self.commits = OffsetCommitter(self.ownership, self.store, [self.bench.stream], lambda _topic: 2)
        self.commits.begin(self.bench.assignment, self.bench.assignment.partitions)
        self.ownership.begin(self.bench.assignment)
        for partition in (0, 1):
            self.bench.put(batch("a", "b"), partition=partition, then=2)
        assert len(next(self.bench.stream.batches(timeout=0.05))) == 4

    def commit(self) -> None:
        self.commits.commit([self.bench.stream], 5.0)

    @property
    def asked(self) -> list[dict[TopicPartition, int]]:
        return self.store.asked


def test_what_is_committed_is_not_sent_again() -> None:
    group = Group()
    group.commit()
    group.commit()
    assert group.asked == [{T0: 2, T1: 2}]


def test_a_partition_that_was_refused_is_named_and_sent_again_by_the_next_commit() -> None:
    group = Group()
    group.store.answers = [{T1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}]
    with pytest.raises(CommitError, match="t-1") as caught:
        group.commit()
    assert set(caught.value.partitions) == {T1}
    group.commit()
    assert group.asked == [{T0: 2, T1: 2}, {T1: 2}]


def test_an_automatic_commit_that_was_refused_in_part_sends_that_part_again() -> None:
    group = Group()
    group.bench.stream.end()  # nothing is in hand any more
    list(group.bench.stream)
    group.store.answers = [{T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}]
    for _ in range(3):
        group.commits.commit_completed_async()
    assert group.asked == [{T0: 2, T1: 2}, {T0: 2}]


@pytest.mark.parametrize("code", OUTDATED)
def test_a_commit_in_the_middle_of_a_rebalance_is_made_again_by_who_holds_the_next_assignment(
    code: ErrorCode,
) -> None:
    group = Group()
    group.store.answers = [{T0: code, T1: code}]
    later = assignment(2, since={T0: 1, T1: 1})

    def rebalance() -> None:
        group.ownership.begin(later)

    group.store.meanwhile = rebalance
    group.commit()
    assert group.asked == [{T0: 2, T1: 2}] * 2


def test_a_commit_that_is_tried_once_waits_for_no_other_generation() -> None:
    group = Group()
    group.store.answers = [{T0: OUTDATED[0]}]
    group.store.meanwhile = lambda: group.ownership.begin(assignment(2, since={T0: 1, T1: 1}))
    with pytest.raises(CommitError, match="t-0"):
        group.commits.commit([group.bench.stream], 5.0, once=True)
    assert (group.asked, group.store.once) == ([{T0: 2, T1: 2}], True)


def test_a_commit_without_time_is_not_made_with_less_than_no_time() -> None:
    group = Group()
    group.commits.commit([group.bench.stream], 0)
    assert group.store.timeouts == [0.0]


def test_what_another_member_reads_now_is_not_committed() -> None:
    group = Group()
    group.ownership.begin(assignment(3, since={T0: 1, T1: 3}))
    with pytest.raises(CommitError, match="t-1"):
        group.commit()
    assert group.asked == [{T0: 2}]


def test_a_position_before_a_commit_that_waits_is_committed_after_it() -> None:
    group = Group()
    group.bench.reads_again = True
    entered, go_on = threading.Event(), threading.Event()
    group.commit()
    group.bench.put(batch("c", "d", base=2), start=2, then=4)
    assert len(next(group.bench.stream.batches(timeout=0.05))) == 2

    def hold() -> None:
        entered.set()
        go_on.wait(60)

    group.store.meanwhile = hold
    group.commits.commit_in_background([group.bench.stream], None, 5.0, None)
    assert entered.wait(30)
    group.bench.stream.redeliver()
    group.commits.commit_in_background([group.bench.stream], None, 5.0, None)
    go_on.set()
    assert group.commits.background.wait(5.0, for_callbacks=True)
    assert group.asked == [{T0: 2, T1: 2}, {T0: 4}, {T0: 2}]
    group.commits.background.end()


def test_a_commit_before_a_rebalance_does_not_wait_for_a_callback_that_waits_for_it() -> None:
    group, done = Group(), threading.Event()

    def wait_for_the_rebalance(*_outcome: object) -> None:
        assert rebalanced.wait(30)
        done.set()

    rebalanced, called = threading.Event(), threading.Event()
    group.store.meanwhile = called.set
    group.commits.commit_in_background([], {T0: OffsetAndMetadata(1)}, 5.0, wait_for_the_rebalance)
    assert called.wait(30)
    group.commits.commit_completed(5.0, in_hand=True)
    rebalanced.set()
    assert done.wait(30)
    assert group.asked == [{T0: 1}, {T0: 2, T1: 2}]
    group.commits.background.end()


def test_a_commit_of_partitions_that_are_lost_does_not_wait_for_the_next_assignment() -> None:
    group = Group()
    group.store.answers = [dict.fromkeys((T0, T1), ErrorCode.ILLEGAL_GENERATION)]
    group.store.meanwhile = lambda: group.ownership.lose([T0, T1])
    with pytest.raises(CommitError) as raised:
        group.commit()
    assert raised.value.partitions.keys() == {T0, T1}
    assert len(group.asked) == 1


def test_no_older_offset_is_committed_while_a_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program has committed the message in hand when an automatic commit looks at the position, and the
    loop gets its next messages at that moment."""
    bench, store, ownership = Bench(timeout=0.05), Store(), Ownership()
    commits = OffsetCommitter(ownership, store, [bench.stream], lambda _topic: 1)
    commits.begin(bench.assignment, bench.assignment.partitions)
    ownership.begin(bench.assignment)
    bench.put(batch("a", "b", "c", "d"), then=4)
    loop = iter(bench.stream)
    next(loop)
    commits.commit([bench.stream], 5.0)
    handed = bench.stream.handed

    def goes_on(*, in_hand: bool) -> dict[TopicPartition, Position]:
        found = handed(in_hand=in_hand)
        next(loop)
        return found

    monkeypatch.setattr(bench.stream, "handed", goes_on)
    commits.commit_completed_async()
    assert store.asked == [{T0: 1}]
    monkeypatch.setattr(bench.stream, "handed", handed)
    commits.commit_completed_async()
    assert store.asked == [{T0: 1}, {T0: 2}]

"""Commits of a connector, with a coordinator that answers as the test says: no broker, no group."""

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

import pytest

from pyklient.consumer.group.membership import Assignment
from pyklient.consumer.offsets.commits import Commits
from pyklient.error_codes import ErrorCode
from pyklient.errors import CommitError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.stream.bench import Bench, batch

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Coordinator:
    """A Membership whose commits end with the codes in ``answers``, one after the other, and then without
    any. ``asked`` holds what each commit was to store."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment: Assignment | None = assignment
        self.thread = threading.current_thread()  # one that is alive
        self.answers: list[dict[TopicPartition, int]] = []
        self.asked: list[dict[TopicPartition, int]] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def runs_here(self) -> bool:
        return False

    def commit(
        self,
        assignment: Assignment,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout: float,
    ) -> dict[TopicPartition, int]:
        self.asked.append({each: at.offset for each, at in offsets.items()})
        codes = self.answers.pop(0) if self.answers else {}
        self.meanwhile()
        return codes

    def send(
        self, assignment: Assignment, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> "Future[dict[TopicPartition, int]]":
        done: Future[dict[TopicPartition, int]] = Future()
        done.set_result(self.commit(assignment, offsets, 0))
        return done


class Group:
    """A stream that has handed out two messages of each of its two partitions, and its commits."""

    def __init__(self) -> None:
        self.bench = Bench(timeout=0.05)
        self.coordinator = Coordinator(self.bench.assignment)
        membership: Any = self.coordinator
        self.commits = Commits(membership, [self.bench.stream], lambda _topic: 2)
        self.commits.begin(self.bench.assignment)
        for partition in (0, 1):
            self.bench.put(batch("a", "b"), partition=partition, then=2)
        assert len(next(self.bench.stream.batches(timeout=0.05))) == 4

    def commit(self) -> None:
        self.commits.commit([self.bench.stream], 5.0)

    @property
    def asked(self) -> list[dict[TopicPartition, int]]:
        return self.coordinator.asked


def test_what_is_committed_is_not_sent_again() -> None:
    group = Group()
    group.commit()
    group.commit()
    assert group.asked == [{T0: 2, T1: 2}]


def test_a_partition_that_was_refused_is_named_and_sent_again_by_the_next_commit() -> None:
    group = Group()
    group.coordinator.answers = [{T1: ErrorCode.TOPIC_AUTHORIZATION_FAILED}]
    with pytest.raises(CommitError, match="t-1") as caught:
        group.commit()
    assert set(caught.value.partitions) == {T1}
    group.commit()
    assert group.asked == [{T0: 2, T1: 2}, {T1: 2}]


def test_an_automatic_commit_that_was_refused_in_part_sends_that_part_again() -> None:
    group = Group()
    group.bench.stream.end()  # nothing is in hand any more
    list(group.bench.stream)
    group.coordinator.answers = [{T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}]
    for _ in range(3):
        group.commits.send_completed()
    assert group.asked == [{T0: 2, T1: 2}, {T0: 2}]


@pytest.mark.parametrize(
    "code",
    [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID],
)
def test_a_commit_in_the_middle_of_a_rebalance_is_made_again_by_who_holds_the_next_assignment(
    code: ErrorCode,
) -> None:
    group = Group()
    group.coordinator.answers = [{T0: code, T1: code}]
    later = Assignment({T0: None, T1: None}, generation=2, held_since={T0: 1, T1: 1})

    def rebalance() -> None:
        group.coordinator.assignment = later

    group.coordinator.meanwhile = rebalance
    group.commit()
    assert group.asked == [{T0: 2, T1: 2}] * 2


def test_what_another_member_reads_now_is_not_committed() -> None:
    group = Group()
    group.coordinator.assignment = Assignment({T0: None, T1: None}, generation=3, held_since={T0: 1, T1: 3})
    with pytest.raises(CommitError, match="t-1"):
        group.commit()
    assert group.asked == [{T0: 2}]

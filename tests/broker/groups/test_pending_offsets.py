"""Offsets in transactions that are still open: the record with the largest offset in the log decides."""

from pathlib import Path

import pytest

from pyklient.broker.groups.committed_offset import CommittedOffset
from pyklient.broker.groups.offsets_partition import OffsetsPartition
from pyklient.broker.groups.pending_offsets import PendingOffsets
from pyklient.broker.log.partition_log import PartitionLog, ProducerIdentity
from pyklient.broker.log.transaction_markers import TransactionMarker
from pyklient.topic_partition import TopicPartition
from tests.broker.groups.test_offsets_partition import CLICKS, CONFIG, VIEWS

ONE, TWO = ProducerIdentity(1, 0), ProducerIdentity(2, 0)


def offset(number: int) -> CommittedOffset:
    return CommittedOffset(number, -1, "", 5)


def test_the_later_record_of_two_transactions_wins_whichever_commits_first() -> None:
    for first, second in ((1, 2), (2, 1)):
        pending, committed = PendingOffsets(), dict[TopicPartition, CommittedOffset]()
        pending.add(1, "g", {CLICKS: offset(10)}, 100)
        pending.add(2, "g", {CLICKS: offset(20)}, 101)
        for producer_id in (first, second):
            committed |= pending.end(producer_id, is_commit=True)["g"]
        assert committed == {CLICKS: offset(20)}


def test_aborted_offsets_are_forgotten_and_change_no_others() -> None:
    pending = PendingOffsets()
    pending.add(1, "g", {CLICKS: offset(10), VIEWS: offset(1)}, 100)
    pending.add(2, "g", {CLICKS: offset(20)}, 102)
    assert pending.partitions("g") == {CLICKS, VIEWS}
    assert pending.end(2, is_commit=False) == {}
    assert pending.end(1, is_commit=True) == {"g": {CLICKS: offset(10), VIEWS: offset(1)}}
    assert pending.partitions("g") == set()


class Stored:
    """A partition of ``__consumer_offsets`` in *directory*."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.open()

    def open(self) -> None:
        self.log = PartitionLog(self._directory, CONFIG, max_producer_ids=10)
        self.partition = OffsetsPartition(self.log)
        list(self.partition.load())

    def restart(self) -> None:
        self.log.close()
        self.open()

    def end(self, producer: ProducerIdentity, *, commit: bool) -> None:
        marker = TransactionMarker(producer.producer_id, producer.epoch, commit, 0)
        self.log.append_marker(marker, now_ms=5, transaction_version=1)
        self.partition.end_transaction(producer.producer_id, is_commit=commit)


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("compacts", [False, True])
def test_offsets_are_committed_with_their_transactions_also_over_restarts(
    tmp_path: Path, *, restarts: bool, compacts: bool
) -> None:
    stored = Stored(tmp_path)

    def step() -> None:
        if compacts:
            list(stored.log.compact())
        if restarts:
            stored.restart()

    stored.partition.commit("g", {CLICKS: offset(1), VIEWS: offset(1)}, 5)
    stored.partition.commit_in_transaction("g", {CLICKS: offset(10)}, ONE, 5)
    step()
    stored.partition.commit_in_transaction("g", {CLICKS: offset(20), VIEWS: offset(20)}, TWO, 5)
    stored.partition.commit_in_transaction("new", {CLICKS: offset(7)}, TWO, 5)
    stored.partition.commit("g", {VIEWS: offset(2)}, 5)
    step()
    assert stored.partition.committed("g") == {CLICKS: offset(1), VIEWS: offset(2)}
    assert stored.partition.pending("g") == {CLICKS, VIEWS}
    assert stored.partition.groups == {"g", "new"}
    stored.end(TWO, commit=True)
    step()
    assert stored.partition.committed("g") == {CLICKS: offset(20), VIEWS: offset(2)}
    assert stored.partition.committed("new") == {CLICKS: offset(7)}
    assert stored.partition.pending("g") == {CLICKS}
    stored.end(ONE, commit=True)
    step()
    assert stored.partition.committed("g") == {CLICKS: offset(20), VIEWS: offset(2)}
    stored.partition.commit_in_transaction("g", {CLICKS: offset(30)}, ONE, 5)
    stored.end(ONE, commit=False)
    step()
    assert stored.partition.committed("g") == {CLICKS: offset(20), VIEWS: offset(2)}
    assert stored.partition.pending("g") == set()
    stored.log.close()


def test_offsets_of_a_deleted_topic_or_group_do_not_come_back_with_a_commit(tmp_path: Path) -> None:
    stored = Stored(tmp_path)
    stored.partition.commit_in_transaction("g", {CLICKS: offset(1), VIEWS: offset(1)}, ONE, 5)
    stored.partition.commit_in_transaction("gone", {VIEWS: offset(1)}, ONE, 5)
    stored.partition.delete_topics({"clicks"}, 5)
    stored.partition.delete_group("gone", 5)
    stored.restart()
    stored.end(ONE, commit=True)
    assert stored.partition.committed("g") == {VIEWS: offset(1)}
    assert stored.partition.committed("gone") == {}
    stored.log.close()

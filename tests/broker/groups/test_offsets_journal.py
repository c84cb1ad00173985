"""Committed offsets and their journal."""

import resource
from pathlib import Path

import pytest

from pyklient.broker.groups.offsets_journal import CommittedOffset, OffsetsJournal
from pyklient.topic_partition import TopicPartition

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 3)


def reopened(path: Path, store: OffsetsJournal) -> OffsetsJournal:
    store.close()
    return OffsetsJournal(path)


def test_what_was_committed_is_there_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    store = OffsetsJournal(path)
    store.commit("g", {CLICKS: CommittedOffset(5, 0, "note"), VIEWS: CommittedOffset(7, -1, "")})
    store.commit("g", {CLICKS: CommittedOffset(6, 0, "ünïcode")})
    store.store_generation("g", {"generation": 3})
    store = reopened(path, store)
    assert store.committed("g") == {
        CLICKS: CommittedOffset(6, 0, "ünïcode"),
        VIEWS: CommittedOffset(7, -1, ""),
    }
    assert store.generation("g") == {"generation": 3}
    store.close()


def test_a_deleted_group_and_a_deleted_topic_stay_deleted(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    store = OffsetsJournal(path)
    store.commit("gone", {CLICKS: CommittedOffset(5, 0, "")})
    store.commit("g", {CLICKS: CommittedOffset(5, 0, ""), VIEWS: CommittedOffset(7, -1, "")})
    store.delete_group("gone")
    store.delete_topic("clicks")
    store = reopened(path, store)
    assert store.groups == {"g"}
    assert store.committed("g") == {VIEWS: CommittedOffset(7, -1, "")}
    store.close()


@pytest.mark.parametrize("torn", [b'{"group":"g","comm', b"\x00\xff\n", b'["not", "ours"]\n'])
def test_a_torn_last_line_costs_nothing_but_itself(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "offsets"
    store = OffsetsJournal(path)
    store.commit("g", {CLICKS: CommittedOffset(5, 0, "")})
    store.close()
    with path.open("ab") as file:
        file.write(torn)
    store = OffsetsJournal(path)
    assert f"the last {len(torn)} bytes of the file were cut off" in caplog.text
    store.commit("g", {CLICKS: CommittedOffset(6, 0, "")})
    store = reopened(path, store)
    assert store.committed("g") == {CLICKS: CommittedOffset(6, 0, "")}
    store.close()


def test_a_commit_that_a_full_disk_cuts_short_does_not_take_later_ones_along(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    store = OffsetsJournal(path)
    store.commit("g", {CLICKS: CommittedOffset(5, 0, "")})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            store.commit("g", {VIEWS: CommittedOffset(6, 0, "")})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    store.commit("g", {CLICKS: CommittedOffset(7, 0, "")})
    store = reopened(path, store)
    assert store.committed("g") == {CLICKS: CommittedOffset(7, 0, "")}
    store.close()


def test_the_journal_does_not_grow_with_every_commit_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "offsets"
    store = OffsetsJournal(path)
    for offset in range(5_000):
        store.commit("g", {CLICKS: CommittedOffset(offset, 0, "")})
    assert len(path.read_bytes().splitlines()) < 1_100
    store = reopened(path, store)
    assert store.committed("g") == {CLICKS: CommittedOffset(4_999, 0, "")}
    store.close()

"""One partition of ``__consumer_offsets``: the state of its groups in memory and in its log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.broker.groups.committed_offset import CommittedOffset
from pyklient.broker.groups.offsets_partition import OffsetsPartition
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.protocol.messages.offsets_topic import GroupMetadataValue
from pyklient.protocol.records import NewRecord
from pyklient.topic_partition import TopicPartition

CLICKS = TopicPartition("clicks", 0)
VIEWS = TopicPartition("views", 3)
CONFIG = LogConfig(
    segment_bytes=100_000,
    index_interval_bytes=4096,
    index_max_bytes=1 << 20,
    max_message_bytes=1 << 20,
    retention_ms=-1,
    retention_bytes=-1,
    log_append_time=False,
)
GENERATION = GroupMetadataValue(
    protocol_type="consumer",
    generation=3,
    protocol="range",
    leader="m1",
    current_state_timestamp=4000,
    members=[
        GroupMetadataValue.MemberMetadata(
            member_id="m1",
            group_instance_id="i1",
            client_id="c",
            client_host="/127.0.0.1",
            rebalance_timeout=60_000,
            session_timeout=10_000,
            subscription=b"subscription",
            assignment=b"assignment",
        )
    ],
)


class Stored:
    """A partition in *directory*, which ``restart`` opens again after its log has been closed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.open()

    def open(self) -> None:
        self.log = PartitionLog(self._directory, CONFIG, max_producer_ids=10)
        self.partition = OffsetsPartition(self.log)

    def restart(self) -> OffsetsPartition:
        self.log.close()
        self.open()
        for _ in self.partition.load():
            pass
        return self.partition


@pytest.fixture
def stored(tmp_path: Path) -> Iterator[Stored]:
    made = Stored(tmp_path)
    yield made
    made.log.close()


def test_what_was_committed_is_there_after_a_restart(stored: Stored) -> None:
    commits = {CLICKS: CommittedOffset(5, 0, "note", 1000), VIEWS: CommittedOffset(7, -1, "", 1000, 9000)}
    stored.partition.commit("g", commits, 1000)
    stored.partition.commit("g", {CLICKS: CommittedOffset(6, 0, "ünïcode", 2000)}, 2000)
    stored.partition.store_generation("g", GENERATION, 2000)
    found = stored.restart()
    assert found.committed("g") == {
        CLICKS: CommittedOffset(6, 0, "ünïcode", 2000),
        VIEWS: CommittedOffset(7, -1, "", 1000, 9000),
    }
    assert found.generation("g") == GENERATION


def test_what_was_deleted_stays_deleted(stored: Stored) -> None:
    for group in ("gone", "g", "h"):
        stored.partition.commit(
            group, {CLICKS: CommittedOffset(5, 0, ""), VIEWS: CommittedOffset(7, 0, "")}, 1
        )
        stored.partition.store_generation(group, GENERATION, 1)
    stored.partition.delete_group("gone", 2)
    stored.partition.delete_topics({"clicks"}, 2)
    stored.partition.delete_offsets("h", [VIEWS], 2)
    for found in (stored.partition, stored.restart()):
        assert found.groups == {"g", "h"}
        assert found.committed("g") == {VIEWS: CommittedOffset(7, 0, "")}
        assert found.committed("h") == {}


def test_the_offsets_of_a_deleted_topic_are_deleted_by_few_batches(stored: Stored) -> None:
    offsets = {CLICKS: CommittedOffset(5, 0, ""), VIEWS: CommittedOffset(7, 0, "")}
    for number in range(1001):
        stored.partition.commit(f"g{number}", offsets, 1)
    stored.partition.delete_topics({"clicks"}, 2)
    assert [len(records) for _, records in stored.log.batches()][1001:] == [1000, 1]
    for found in (stored.partition, stored.restart()):
        assert found.topics == {"views"}
        assert len(found.groups) == 1001


def test_a_partition_with_records_is_not_loaded_before_all_are_read(stored: Stored) -> None:
    assert stored.partition.loaded
    for offset in range(2500):
        stored.partition.commit("g", {CLICKS: CommittedOffset(offset, 0, "")}, 1)
    stored.log.close()
    stored.open()
    steps = 0
    for _ in stored.partition.load():
        assert not stored.partition.loaded
        steps += 1
    assert steps == 2
    assert stored.partition.loaded
    assert stored.partition.committed("g") == {CLICKS: CommittedOffset(2499, 0, "")}


@pytest.mark.parametrize("key", [b"", b"\x00\x07new kind", b"\x00\x01\x00\x05g"])
def test_a_record_that_cannot_be_read_is_skipped_with_a_warning(
    stored: Stored, key: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    stored.partition.commit("g", {CLICKS: CommittedOffset(5, 0, "")}, 1)
    stored.log.append_own([NewRecord(1, key, b"value")])
    stored.partition.commit("g", {VIEWS: CommittedOffset(6, 0, "")}, 1)
    found = stored.restart()
    assert "a record was skipped" in caplog.text
    assert found.committed("g") == {CLICKS: CommittedOffset(5, 0, ""), VIEWS: CommittedOffset(6, 0, "")}


def test_the_log_does_not_grow_with_every_commit_for_ever(stored: Stored) -> None:
    stored.partition.commit("g", {VIEWS: CommittedOffset(7, 0, "")}, 1)
    stored.partition.commit("deleted", {VIEWS: CommittedOffset(7, 0, "")}, 1)
    stored.partition.delete_group("deleted", 1)
    for offset in range(3000):
        stored.partition.commit("g", {CLICKS: CommittedOffset(offset, 0, "")}, 1)
    end, size = stored.log.end_offset, stored.log.size
    for step, _ in enumerate(stored.partition.compact()):
        if not step:
            stored.partition.commit("h", {CLICKS: CommittedOffset(1, 0, "")}, 1)
    assert stored.log.size < size / 100
    kept = [(each.offset, each.value is None) for _, records in stored.log.batches() for each in records]
    assert kept == [(0, False), (end - 1, False), (end, False)]
    for found in (stored.partition, stored.restart()):
        assert found.groups == {"g", "h"}
        assert found.committed("g") == {
            VIEWS: CommittedOffset(7, 0, ""),
            CLICKS: CommittedOffset(2999, 0, ""),
        }
    assert stored.log.end_offset == end + 1
    list(stored.partition.compact())
    assert [len(records) for _, records in stored.log.batches()] == [2, 1], "a small log is left alone"

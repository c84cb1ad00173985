"""Compaction of a log: what is kept, and what a crash in the middle of it leaves."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.broker.log.batch_headers import BatchHeader
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.broker.log.segment import Segment
from pyklient.protocol.records import NewRecord

CONFIG = LogConfig(
    segment_bytes=1000,
    index_interval_bytes=100,
    index_max_bytes=1 << 20,
    max_message_bytes=1 << 20,
    retention_ms=-1,
    retention_bytes=-1,
    log_append_time=False,
)
# The newest records: key 0 is deleted, 1 to 4 have the values of the last round, "once" the first of all.
NEWEST = {b"once": (0, b"first"), **{b"%d" % key: (45 + key + 1, b"value 9") for key in range(1, 5)}}


def opened(directory: Path) -> PartitionLog:
    return PartitionLog(directory, CONFIG, max_producer_ids=10)


def newest(log: PartitionLog) -> dict[bytes | None, tuple[int, bytes]]:
    """Return the offset and value of the newest record of each key that has a value."""
    found: dict[bytes | None, tuple[int, bytes]] = {}
    for _, records in log.batches():
        for record in records:
            found.pop(record.key, None)
            if record.value is not None:
                found[record.key] = (record.offset, record.value)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    made = opened(tmp_path)
    made.append_own([NewRecord(1, b"once", b"first")])
    for number in range(10):
        made.append_own([NewRecord(2, b"%d" % key, b"value %d" % number) for key in range(5)])
    made.append_own([NewRecord(3, b"0", None)])
    assert len(made.segments) > 1
    assert newest(made) == NEWEST
    yield made
    made.close()


def compact(log: PartitionLog) -> int:
    steps = log.compact()
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return int(end.value)


def test_the_newest_record_of_each_key_keeps_its_offset(log: PartitionLog, tmp_path: Path) -> None:
    end = log.end_offset
    assert compact(log) == len(NEWEST)
    assert sum(len(records) for _, records in log.batches()) == len(NEWEST)
    assert len(list(tmp_path.glob("*.log"))) == 2
    log.append_own([NewRecord(4, b"new", b"value")])
    again = opened(tmp_path)
    for each in (log, again):
        assert newest(each) == NEWEST | {b"new": (end, b"value")}
        assert (each.start_offset, each.end_offset) == (0, end + 1)
        located = each.locate(7)
        assert located is not None
        assert located.batch.last_offset == end - 2, "a reader in the gap goes on with the next record"
    again.close()


def test_other_work_is_done_while_the_compacted_records_are_checked(
    log: PartitionLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[BatchHeader] = []
    recover = Segment.recover

    def counted(segment: Segment) -> Iterator[BatchHeader]:
        for header in recover(segment):
            checked.append(header)
            yield header

    monkeypatch.setattr(Segment, "recover", counted)
    for thousand in range(3):
        log.append_own([NewRecord(4, b"%d-%d" % (thousand, key), b"value") for key in range(1000)])
    before = newest(log)
    in_each_step: list[int] = []
    for _ in log.compact():
        in_each_step.append(len(checked) - sum(in_each_step))
        assert newest(log) == before
    assert (max(in_each_step), len(checked)) == (1, 3)


def test_a_response_still_reads_the_records_from_before_the_compaction(log: PartitionLog) -> None:
    found = log.slice(0, 1 << 20, limit=log.end_offset, whole_first=True)
    assert found is not None
    before = found.read()
    compact(log)
    assert found.read() == before


@pytest.mark.parametrize(
    "crash", ["before the new segment is in place", "before the old segments are removed"]
)
def test_a_crash_leaves_the_old_records_or_the_new_ones(
    log: PartitionLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash: str
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt(crash)

    end = log.end_offset
    with monkeypatch.context() as patched:
        if crash.startswith("before the new"):
            patched.setattr(Path, "replace", fail)
        else:
            patched.setattr(Segment, "unlink", fail)
        with pytest.raises(KeyboardInterrupt):
            compact(log)
    again = opened(tmp_path)
    assert newest(again) == NEWEST
    assert again.end_offset == end
    assert compact(again) == len(NEWEST)
    again.close()

"""A partition's log: segments, index, recovery, positions."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.topic_configs import topic_config_defs
from pyklient.broker.config import BrokerConfig
from pyklient.broker.log.clean_shutdown import LogState
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.offset_by_time import first_since, newest_record, segment_offsets_before
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.records import Compression, NewRecord, iter_batches
from tests.run.seed import dice

pytestmark = pytest.mark.both_kernels

Opener = Callable[..., PartitionLog]

NOW = 1_700_000_000_000


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    logs: list[PartitionLog] = []

    def open_log(state: LogState | None = None, **configs: str) -> PartitionLog:
        values = {each.name: each.default for each in topic_config_defs(BrokerConfig())}
        values |= {name.replace("_", "."): value for name, value in configs.items()}
        log = PartitionLog(tmp_path / "clicks-0", LogConfig.of(values), max_producer_ids=100, state=state)
        logs.append(log)
        return log

    yield open_log
    for log in logs:
        log.close()


def batch(count: int = 10, *, stamp: int = 1000, size: int = 20, **options: Any) -> bytes:
    """Return a batch of *count* records whose timestamps differ by a millisecond."""
    records = [NewRecord(stamp + at, b"k%d" % at, b"v" * size) for at in range(count)]
    return encode_batch(records, **options)


def fill(log: PartitionLog, batches: int, count: int = 10) -> None:
    for at in range(batches):
        log.append(batch(count, stamp=1000 + at * count), version=9, now_ms=NOW)


def read_all(log: PartitionLog, max_bytes: int = 1 << 20) -> list[int]:
    """Return the offsets of all records, read as a consumer would read them."""
    offsets: list[int] = []
    position = log.start_offset
    while (part := log.slice(position, max_bytes, limit=log.end_offset, whole_first=True)) is not None:
        for found in iter_batches(part.read()):
            found.verify()
            offsets += [record.offset for record in read_records(found) if record.offset >= position]
            position = found.next_offset
    return offsets


def test_offsets_are_assigned_in_order_and_read_back(opened: Opener) -> None:
    log = opened()
    answers = [log.append(batch(3), version=9, now_ms=NOW).base_offset for _ in range(4)]
    assert answers == [0, 3, 6, 9]
    assert (log.start_offset, log.end_offset) == (0, 12)
    assert read_all(log) == list(range(12))


def test_segments_are_named_by_their_first_offset_and_rolled_before_they_grow_too_large(
    opened: Opener,
) -> None:
    log = opened(segment_bytes="1000")
    fill(log, 10)
    names = sorted(path.name for path in log.directory.glob("*.log"))
    assert len(names) > 3
    assert names == [f"{segment.base_offset:020d}.log" for segment in log.segments]
    assert all(path.stat().st_size <= 1000 for path in log.directory.glob("*.log"))
    assert read_all(log) == list(range(100))


def test_an_offset_in_the_middle_is_found_through_the_index_without_reading_what_is_before(
    opened: Opener,
) -> None:
    log = opened(index_interval_bytes="2000")
    fill(log, 2_000, count=3)
    largest = max(found.size for found in log.segments[0].headers())
    for offset in (0, 1, 2_999, 3_000, 5_555, 5_999):
        found = log.locate(offset)
        assert found is not None
        assert found.batch.base_offset <= offset <= found.batch.last_offset
        assert found.scanned <= 2_000 + 2 * largest
    assert len(log.segments[0].index) > 50


def test_any_offset_of_any_log_is_found(opened: Opener) -> None:
    random = dice("any log")
    log = opened(segment_bytes="5000", index_interval_bytes="300")
    while log.end_offset < 500:
        log.append(batch(random.randint(1, 9), size=random.randint(0, 90)), version=9, now_ms=NOW)
    for offset in range(log.end_offset):
        found = log.locate(offset)
        assert found is not None
        assert found.batch.base_offset <= offset <= found.batch.last_offset
    assert log.locate(log.end_offset) is None


@pytest.mark.parametrize("offset", [-1, 101, 2**62])
def test_an_offset_outside_the_log_is_out_of_range(opened: Opener, offset: int) -> None:
    log = opened()
    fill(log, 10)
    with pytest.raises(ApiError) as told:
        log.slice(offset, 100, limit=log.end_offset, whole_first=True)
    assert told.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("limit", [1, 100, 500, 1_000, 3_333, 10_000])
def test_a_slice_ends_with_a_whole_batch_within_its_limit(opened: Opener, limit: int) -> None:
    log = opened(index_interval_bytes="500")
    fill(log, 60)
    part = log.slice(55, limit, limit=log.end_offset, whole_first=True)
    assert part is not None
    data = part.read()
    found = list(iter_batches(data))
    assert sum(one.size for one in found) == len(data)
    assert found[0].base_offset == 50
    assert len(data) <= limit or len(found) == 1
    following = log.locate(found[-1].next_offset)
    assert following is None or len(data) + following.batch.size > limit or len(found) == 1


def test_a_first_batch_above_the_limit_comes_whole_or_cut_or_not_as_asked(opened: Opener) -> None:
    log = opened()
    fill(log, 2)
    whole = log.slice(0, 50, limit=log.end_offset, whole_first=True)
    cut = log.slice(0, 50, limit=log.end_offset, whole_first=False, partial=True)
    assert whole is not None
    assert cut is not None
    assert (len(list(iter_batches(whole.read()))), cut.length) == (1, 50)
    assert log.slice(0, 50, limit=log.end_offset, whole_first=False) is None


def test_what_was_appended_is_there_when_the_log_is_opened_again(opened: Opener) -> None:
    log = opened(segment_bytes="1000", index_interval_bytes="100")
    fill(log, 10)
    entries = [segment.index.entries for segment in log.segments]
    log.close()
    again = opened(segment_bytes="1000", index_interval_bytes="100")
    assert read_all(again) == list(range(100))
    assert [segment.index.entries for segment in again.segments] == entries
    assert again.append(batch(), version=9, now_ms=NOW).base_offset == 100


@pytest.mark.parametrize("cut", [1, 30, 61, 100])
def test_a_batch_written_only_in_part_is_cut_off(
    opened: Opener, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened()
    fill(log, 5)
    path = log.segments[-1].path
    log.close()
    os.truncate(path, path.stat().st_size - cut)
    again = opened()
    assert "after the last valid batch were cut off" in caplog.text
    assert read_all(again) == list(range(40))
    assert again.append(batch(), version=9, now_ms=NOW).base_offset == 40
    assert read_all(again) == list(range(50))


def test_what_follows_a_damaged_batch_goes_with_later_segments(opened: Opener) -> None:
    log = opened(segment_bytes="1000")
    fill(log, 10)
    damaged = log.segments[1]
    with damaged.path.open("r+b") as file:
        file.seek(damaged.size - 5)
        file.write(b"oops")
    lost_from = [found.base_offset for found in damaged.headers()][-1]
    log.close()
    again = opened(segment_bytes="1000")
    assert read_all(again) == list(range(lost_from))
    assert len(list(again.directory.glob("*.log"))) == 2


def test_a_missing_or_wrong_index_is_built_anew(opened: Opener) -> None:
    log = opened(index_interval_bytes="100")
    fill(log, 20)
    path, entries = log.segments[0].index.path, log.segments[0].index.entries
    log.close()
    path.write_bytes(b"\xff" * 64)
    again = opened(index_interval_bytes="100")
    assert again.segments[0].index.entries == entries
    assert path.stat().st_size == 8 * len(entries)


def test_records_whose_index_entry_cannot_be_written_leave_nothing_behind(
    opened: Opener, tmp_path: Path
) -> None:
    log = opened(index_interval_bytes="0")
    fill(log, 1)
    (index,) = tmp_path.glob("*/*.index")
    index.unlink()
    index.mkdir()
    with pytest.raises(IsADirectoryError):
        fill(log, 1)
    assert log.end_offset == 10
    index.rmdir()
    fill(log, 3)
    assert read_all(log) == list(range(40))
    log.close()
    assert read_all(opened(index_interval_bytes="0")) == list(range(40))


def test_a_full_index_begins_a_new_segment(opened: Opener) -> None:
    log = opened(index_interval_bytes="0", segment_index_bytes="24")
    fill(log, 20)
    assert [len(segment.index) for segment in log.segments[:-1]] == [3] * (len(log.segments) - 1)
    assert read_all(log) == list(range(200))


def test_sequences_of_producers_are_known_again_after_a_restart(opened: Opener) -> None:
    log = opened()
    sent = batch(10, producer_id=9, producer_epoch=0, base_sequence=0)
    assert log.append(sent, version=9, now_ms=NOW).base_offset == 0
    log.append(batch(10, producer_id=9, producer_epoch=0, base_sequence=10), version=9, now_ms=NOW)
    log.close()
    again = opened()
    assert again.append(sent, version=9, now_ms=NOW).base_offset == 0
    assert again.end_offset == 20
    with pytest.raises(ApiError) as told:
        again.append(batch(10, producer_id=9, producer_epoch=0, base_sequence=40), version=9, now_ms=NOW)
    assert told.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_time_is_found_in_the_middle_of_a_batch(opened: Opener) -> None:
    log = opened(segment_bytes="1000")
    fill(log, 10)
    for stamp, offset in ((0, 0), (1000, 0), (1001, 1), (1057, 57), (1099, 99)):
        found = first_since(log.segments, stamp)
        assert found is not None
        assert found.offset == offset
    assert first_since(log.segments, 1100) is None
    newest = newest_record(log.segments)
    assert newest is not None
    assert tuple(newest) == (99, 1099)


def test_the_broker_stamps_records_where_the_topic_says_so(opened: Opener) -> None:
    log = opened(message_timestamp_type="LogAppendTime")
    appended = log.append(batch(3), version=9, now_ms=NOW)
    assert appended.log_append_time_ms == NOW
    part = log.slice(0, 1000, limit=log.end_offset, whole_first=True)
    assert part is not None
    [found] = iter_batches(part.read())
    found.verify()
    assert [(record.timestamp_ms, record.timestamp_type) for record in read_records(found)] == [(NOW, 1)] * 3


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4])
def test_old_formats_are_stored_as_they_came_with_offsets_of_the_log(
    opened: Opener, magic: int, codec: Compression
) -> None:
    log = opened()
    records = [NewRecord(1000 + at, b"k", b"%d" % at) for at in range(5)]
    for base in (0, 5):
        sent = encode_batch(records, magic=magic, compression=codec)
        assert log.append(sent, version=2, now_ms=NOW).base_offset == base
    log.close()
    again = opened()
    part = again.slice(7, 1 << 20, limit=again.end_offset, whole_first=True)
    assert part is not None
    found = [
        record for one in iter_batches(part.read()) for record in read_records(one) if record.offset >= 7
    ]
    assert [(record.offset, record.value) for record in found] == [(7, b"2"), (8, b"3"), (9, b"4")]
    assert {one.magic for one in iter_batches(part.read())} == {magic}


def refusal(log: PartitionLog, data: bytes | None, version: int = 9) -> ErrorCode:
    before = log.end_offset, log.size
    with pytest.raises(ApiError) as told:
        log.append(data, version=version, now_ms=NOW)
    assert (log.end_offset, log.size) == before
    return told.value.code


def test_damaged_and_forbidden_batches_are_refused_and_leave_no_trace(opened: Opener) -> None:
    log = opened(max_message_bytes="2000")
    good = batch()
    flipped = good[:-1] + bytes([good[-1] ^ 1])
    assert refusal(log, flipped) == ErrorCode.CORRUPT_MESSAGE
    assert refusal(log, good[:-1]) == ErrorCode.CORRUPT_MESSAGE
    assert refusal(log, b"\x00" * 100) == ErrorCode.CORRUPT_MESSAGE
    assert refusal(log, good + good) == ErrorCode.INVALID_RECORD
    assert refusal(log, None) == ErrorCode.INVALID_RECORD
    assert refusal(log, encode_batch([NewRecord(1, b"k", b"v")], magic=1)) == ErrorCode.INVALID_RECORD
    assert refusal(log, batch(10, size=300)) == ErrorCode.MESSAGE_TOO_LARGE
    assert refusal(log, batch(1, timestamp_type=1)) == ErrorCode.INVALID_TIMESTAMP
    assert refusal(log, batch(1, control=True)) == ErrorCode.INVALID_RECORD
    assert refusal(log, batch(1, transactional=True)) == ErrorCode.INVALID_RECORD
    assert refusal(log, batch(0)) == ErrorCode.INVALID_RECORD
    assert refusal(log, batch(1, compression=Compression.ZSTD), 6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert refusal(opened(segment_bytes="100"), good) == ErrorCode.RECORD_LIST_TOO_LARGE


def test_old_segments_go_by_size_and_by_age(opened: Opener) -> None:
    log = opened(segment_bytes="1000", retention_bytes="2500")
    fill(log, 20)
    deleted = log.enforce_retention(NOW)
    assert deleted > 0
    assert 2500 <= log.size < 3500
    assert log.start_offset == log.segments[0].base_offset > 0
    assert read_all(log) == list(range(log.start_offset, 200))
    log.close()
    aged = opened(segment_bytes="1000", retention_ms="1000")
    aged.enforce_retention(NOW)
    assert (aged.start_offset, aged.end_offset, aged.size) == (200, 200, 0)
    aged.close()
    assert opened().end_offset == 200


def test_a_segment_stays_until_its_newest_record_is_older_than_retention_ms(opened: Opener) -> None:
    log = opened(segment_bytes="1000", retention_ms="1000")
    fill(log, 20)
    newest = log.segments[0].max_timestamp
    assert log.enforce_retention(newest + 1000) == 0
    assert log.start_offset == 0
    assert log.enforce_retention(newest + 1001) > 0
    assert log.start_offset > 0


def test_a_deleted_log_takes_its_directory_along_and_wakes_who_waits(opened: Opener) -> None:
    log = opened()
    fill(log, 1)
    woken: list[bool] = []
    log.watermarks.on_advance(lambda: woken.append(True))
    log.delete()
    assert woken == [True]
    assert not log.directory.exists()


def test_offsets_before_a_time_come_by_segment_newest_first(opened: Opener) -> None:
    log = opened(segment_bytes="100")
    for _ in range(20):
        log.append(encode_batch([NewRecord(-1, None, b"42")], magic=0), version=0, now_ms=NOW)
    assert segment_offsets_before(log.segments, -1, 10, NOW) == [20, 18, 15, 12, 9, 6, 3, 0]
    assert segment_offsets_before(log.segments, -1, 2, NOW) == [20, 18]
    assert segment_offsets_before(log.segments, -2, 10, NOW) == [0]
    os.utime(log.segments[0].path, (1, 1))
    assert segment_offsets_before(log.segments, 5_000, 10, NOW) == [0]
    assert segment_offsets_before(log.segments, 500, 10, NOW) == []


def test_a_directory_that_cannot_be_removed_is_logged(
    opened: Opener, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = opened()
    fill(log, 1)

    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("shutil.rmtree", refuse)
    log.delete()
    assert f"the directory {log.directory} of a deleted topic could not be removed" in caplog.text
    assert "Permission denied" in caplog.text

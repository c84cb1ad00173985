"""The high watermark and the last stable offset: the limits up to which consumers may read."""

from pathlib import Path

import pytest

from pyklient.broker.cluster.topic_configs import topic_config_defs
from pyklient.broker.config import BrokerConfig
from pyklient.broker.log.high_watermark_advance import READ_UNCOMMITTED, Watermarks
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.records import NewRecord, iter_batches

READ_COMMITTED = 1


def log_of(directory: Path, batches: int, **settings: str) -> PartitionLog:
    """Return a log with *batches* batches of two records each."""
    values = {each.name: each.default for each in topic_config_defs(BrokerConfig())}
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    log = PartitionLog(directory, LogConfig.of(values), max_producer_ids=10)
    for _ in range(batches):
        log.append(encode_batch([NewRecord(1, None, b"v")] * 2), version=9, now_ms=1)
    return log


def offsets(log: PartitionLog, start: int, limit: int) -> list[int]:
    found = log.slice(start, 1 << 20, limit=limit, whole_first=True)
    if found is None:
        return []
    return [record.offset for batch in iter_batches(found.read()) for record in read_records(batch)]


def test_an_append_moves_both_limits_and_wakes_those_who_wait() -> None:
    watermarks = Watermarks(5)
    woken: list[int] = []
    watermarks.on_advance(lambda: woken.append(watermarks.high_watermark))
    watermarks.advance(8)
    watermarks.advance(9)
    assert (watermarks.high_watermark, watermarks.last_stable_offset) == (9, 9)
    assert woken == [8]


def test_a_listener_that_was_removed_is_not_called() -> None:
    watermarks = Watermarks(0)
    woken: list[bool] = []

    def wake() -> None:
        woken.append(True)

    watermarks.on_advance(wake)
    watermarks.off_advance(wake)
    watermarks.advance(1)
    assert woken == []


def test_committed_reads_end_at_the_last_stable_offset() -> None:
    watermarks = Watermarks(10)
    watermarks.last_stable_offset = 4
    assert (watermarks.limit(READ_UNCOMMITTED), watermarks.limit(READ_COMMITTED)) == (10, 4)


def test_the_limits_of_a_log_are_its_end_also_when_it_is_opened_again(tmp_path: Path) -> None:
    log = log_of(tmp_path, 3)
    assert (log.watermarks.high_watermark, log.watermarks.last_stable_offset) == (6, 6)
    log.close()
    again = log_of(tmp_path, 0)
    assert (again.watermarks.high_watermark, again.watermarks.last_stable_offset) == (6, 6)
    again.close()


@pytest.mark.parametrize("segment_bytes", ["1000000", "150"])
def test_a_slice_ends_before_its_limit(tmp_path: Path, segment_bytes: str) -> None:
    log = log_of(tmp_path, 6, segment_bytes=segment_bytes)
    for limit in range(0, 13, 2):
        read: list[int] = []
        while found := offsets(log, len(read), limit):
            read += found
        assert read == list(range(limit))
    log.close()

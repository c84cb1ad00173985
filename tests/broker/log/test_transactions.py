"""Transactions in the log of a partition: the last stable offset, aborted transactions, recovery."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.topic_configs import topic_config_defs
from pyklient.broker.config import BrokerConfig
from pyklient.broker.log.aborted_transactions import aborted_transactions
from pyklient.broker.log.clean_shutdown import LogState, decode_states, encode_states
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.broker.log.transaction_markers import TransactionMarker
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch
from pyklient.protocol.records import NewRecord

Opener = Callable[..., PartitionLog]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opener]:
    logs: list[PartitionLog] = []

    def open_log(state: LogState | None = None, max_producer_ids: int = 100, **configs: str) -> PartitionLog:
        values = {each.name: each.default for each in topic_config_defs(BrokerConfig())}
        values |= {name.replace("_", "."): value for name, value in configs.items()}
        log = PartitionLog(
            tmp_path / "clicks-0", LogConfig.of(values), max_producer_ids=max_producer_ids, state=state
        )
        logs.append(log)
        return log

    yield open_log
    for log in logs:
        log.close()


class Producers:
    """Producers that write batches of two records into *log*, in transactions."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self._sequences: dict[tuple[int, int], int] = {}

    def send(self, producer_id: int, epoch: int = 0, *, transactional: bool = True) -> int:
        sequence = self._sequences.get((producer_id, epoch), 0)
        batch = encode_batch(
            [NewRecord(1, None, b"v")] * 2,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=transactional,
        )
        offset = self.log.append(batch, version=9, now_ms=1).base_offset
        self._sequences[producer_id, epoch] = sequence + 2
        return offset

    def end(
        self, producer_id: int, epoch: int = 0, *, commit: bool = True, version: int = 1, coordinator: int = 0
    ) -> None:
        marker = TransactionMarker(producer_id, epoch, commit, coordinator)
        self.log.append_marker(marker, now_ms=5, transaction_version=version)


def limits(log: PartitionLog) -> tuple[int, int]:
    return log.watermarks.last_stable_offset, log.watermarks.high_watermark


def aborted(log: PartitionLog, start: int = 0, end: int | None = None) -> list[tuple[int, ...]]:
    found = aborted_transactions(log.segments, start, log.end_offset if end is None else end)
    return [tuple(each) for each in found]


def test_the_last_stable_offset_is_where_the_oldest_open_transaction_begins(opened: Opener) -> None:
    log = opened()
    producers = Producers(log)
    log.append(encode_batch([NewRecord(1, None, b"v")]), version=9, now_ms=1)
    assert limits(log) == (1, 1)
    producers.send(7)
    producers.send(8)
    producers.send(7)
    assert limits(log) == (1, 7)
    producers.end(7)
    assert limits(log) == (3, 8)
    producers.send(7)
    assert limits(log) == (3, 10)
    producers.end(8, commit=False)
    assert limits(log) == (8, 11)
    producers.end(7, commit=False)
    assert limits(log) == (12, 12)
    assert aborted(log) == [(8, 3, 10, 8), (7, 8, 11, 12)]
    assert aborted(log, 11) == [(7, 8, 11, 12)]
    assert aborted(log, 0, 8) == [(8, 3, 10, 8)]


def filled(opened: Opener, **configs: str) -> PartitionLog:
    """Return a log with several segments: aborted and committed transactions, and an open one."""
    log = opened(segment_bytes="400", **configs)
    producers = Producers(log)
    for number in range(12):
        producers.send(7)
        producers.send(8)
        producers.end(7, commit=number % 3 != 0)
        producers.send(8)
        producers.end(8, commit=number % 4 != 0)
    producers.send(7)
    assert len(log.segments) > 3
    assert len(aborted(log)) == 7
    return log


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_restart_finds_open_and_aborted_transactions_again(opened: Opener, *, is_clean: bool) -> None:
    log = filled(opened)
    state = log.state()
    log.close()
    saved = decode_states(encode_states({"clicks-0": state}))["clicks-0"] if is_clean else None
    again = opened(saved, segment_bytes="400")
    assert limits(again) == limits(log)
    assert aborted(again) == aborted(log)
    assert again.producers.snapshot() == log.producers.snapshot()
    Producers(again).end(7, commit=False)
    assert limits(again) == (again.end_offset, again.end_offset)


def test_a_transaction_index_that_lacks_an_entry_is_rebuilt(opened: Opener, tmp_path: Path) -> None:
    log = filled(opened)
    state = log.state()
    log.close()
    index = max(tmp_path.rglob("*.txnindex"))
    index.write_bytes(index.read_bytes()[:-1])
    assert aborted(opened(state, segment_bytes="400")) == aborted(log)


def test_deleted_segments_take_their_aborted_transactions_with_them(opened: Opener, tmp_path: Path) -> None:
    log = filled(opened, retention_bytes="800")
    first_open = limits(log)[0]
    assert log.enforce_retention(10) > 0
    assert log.start_offset > 0
    assert {path.stem for path in tmp_path.rglob("*.txnindex")} <= {
        path.stem for path in tmp_path.rglob("*.log")
    }
    assert all(each[2] >= log.start_offset for each in aborted(log, log.start_offset))
    assert limits(log)[0] == first_open


def test_a_deleted_beginning_of_an_open_transaction_does_not_hold_readers_up_before_the_log(
    opened: Opener,
) -> None:
    log = opened(segment_bytes="200", retention_bytes="200")
    producers = Producers(log)
    for _ in range(8):
        producers.send(7)
    log.enforce_retention(10)
    assert log.start_offset > 0
    assert limits(log) == (log.start_offset, log.end_offset)


def refusal(work: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as told:
        work()
    return told.value.code


def test_late_batches_and_markers_are_refused(opened: Opener) -> None:
    log = opened()
    producers = Producers(log)
    producers.send(7, 3)
    assert refusal(lambda: producers.send(7, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(lambda: producers.send(7, 3, transactional=False)) == ErrorCode.INVALID_TXN_STATE
    assert refusal(lambda: producers.end(7, 2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert refusal(lambda: producers.end(7, 3, version=2)) == ErrorCode.INVALID_PRODUCER_EPOCH
    end = log.end_offset
    producers.end(7, 4, version=2, coordinator=5)
    producers.end(7, 4, version=2, coordinator=5)  # The coordinator has not seen the response.
    assert log.end_offset == end + 2
    assert refusal(lambda: producers.end(7, 5, coordinator=4)) == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refusal(lambda: producers.send(7, 3)) == ErrorCode.INVALID_PRODUCER_EPOCH
    producers.send(7, 4)


def test_producers_with_open_transactions_are_not_forgotten(opened: Opener) -> None:
    log = opened(max_producer_ids=2)
    producers = Producers(log)
    for producer_id in range(5):
        producers.send(producer_id)
    assert limits(log)[0] == 0
    for producer_id in range(5):
        producers.end(producer_id)
    assert limits(log) == (log.end_offset, log.end_offset)
    assert len(log.producers) == 2

"""Error codes in responses to Fetch and ListOffsets: those that are tried again, and those that a loop
raises."""

import logging
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.bounded_read import read
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, CorruptRecordError, KafkaError
from pyklient.protocol.records.layout import MAGIC_AT
from tests.consumer.fetch.leader import Leader
from tests.consumer.stream.bench import batch


@pytest.fixture
def leader() -> Iterator[Leader]:
    with Leader() as leader:
        yield leader


def connect(leader: Leader, **options: Any) -> ConsumerConnector:
    quick = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 20, "fetch_max_wait_ms": 50, **options}
    return ConsumerConnector(
        leader.address, auto_offset_reset="earliest", consumer_timeout_ms=10_000, **quick
    )


# What Kafka's own consumer asks for again (FetchCollector.handleInitializeErrors), and leaders' comings and
# goings that its table of errors calls retriable.
PASSING = [
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.REPLICA_NOT_AVAILABLE,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.FENCED_LEADER_EPOCH,
    ErrorCode.UNKNOWN_LEADER_EPOCH,
    ErrorCode.OFFSET_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.INCONSISTENT_TOPIC_ID,
]


@pytest.mark.parametrize("code", PASSING, ids=lambda code: code.name)
def test_a_partition_is_asked_for_again_after_an_error_that_may_pass(leader: Leader, code: ErrorCode) -> None:
    leader.errors = [code, code]
    with connect(leader) as connector:
        assert next(iter(connector.stream("t"))).value == b"a"
        assert connector.metrics().errors == {code.name: 2}
    assert leader.errors == []


def test_a_failure_that_the_broker_has_no_code_for_is_logged_as_a_warning_each_time(
    leader: Leader, caplog: pytest.LogCaptureFixture
) -> None:
    leader.errors = [ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR] * 2
    with connect(leader) as connector, caplog.at_level(logging.DEBUG, "pyklient.consumer"):
        next(iter(connector.stream("t")))
    said = [(record.levelno, record.message) for record in caplog.records if "trying again" in record.message]
    assert [level for level, _ in said] == [logging.WARNING, logging.DEBUG] * 2
    assert all("fetch t-0 at offset 0" in message for _, message in said)


def test_an_error_that_passes_is_told_once_however_often_it_comes_in_a_row(
    leader: Leader, caplog: pytest.LogCaptureFixture
) -> None:
    leader.errors = [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 5
    with connect(leader) as connector, caplog.at_level(logging.INFO, "pyklient.consumer"):
        next(iter(connector.stream("t")))
    assert len([record for record in caplog.records if "trying again" in record.message]) == 1


def test_the_pause_before_a_partition_is_asked_for_again_grows(leader: Leader) -> None:
    leader.errors = [ErrorCode.UNKNOWN_SERVER_ERROR] * 4
    with connect(leader, retry_backoff_ms=30, retry_backoff_max_ms=1_000) as connector:
        next(iter(connector.stream("t")))
    # 30, 60, 120 and 240 ms, each shorter or longer by up to a fifth
    assert leader.fetched_at[4] - leader.fetched_at[0] >= 0.8 * 0.45


def test_a_whole_fetch_that_the_broker_has_no_code_for_is_tried_again(leader: Leader) -> None:
    leader.refusals = [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    with connect(leader) as connector:
        assert next(iter(connector.stream("t"))).value == b"a"
    assert leader.refusals == []


@pytest.mark.parametrize("code", PASSING, ids=lambda code: code.name)
def test_where_to_begin_is_looked_up_again_after_an_error_that_may_pass(
    leader: Leader, code: ErrorCode
) -> None:
    leader.unlisted = [code, code]
    with connect(leader) as connector:
        assert next(iter(connector.stream("t"))).value == b"a"
    assert leader.unlisted == []


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, BrokerError),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, BrokerError),
        (ErrorCode.CORRUPT_MESSAGE, CorruptRecordError),
    ],
    ids=["not authorized", "unknown codec", "corrupt"],
)
def test_an_error_that_waiting_does_not_cure_is_raised_once_for_each_loop(
    leader: Leader, code: ErrorCode, kind: type[KafkaError]
) -> None:
    leader.errors = [code, code]
    with connect(leader) as connector:
        stream = connector.stream("t")
        for _ in range(2):
            with pytest.raises(kind, match="fetch t-0 at offset 0"):
                next(iter(stream))
        assert next(iter(stream)).value == b"a"


def test_what_the_broker_reports_as_corrupt_is_passed_one_offset_at_a_time_if_the_program_says_so() -> None:
    told: list[tuple[int, int]] = []
    with Leader(batch("a", "b", "c"), end=3) as leader:
        leader.errors = [ErrorCode.CORRUPT_MESSAGE] * 3
        with connect(
            leader, on_corrupt=lambda each: told.append((each.first_offset, each.next_offset))
        ) as it:
            assert [message.offset for message in islice(it.stream("t"), 1)] == [2]
            assert (it.metrics().corrupt_batches, it.metrics().skipped_offsets) == (1, 2)
    assert told == [(0, 1), (1, 2)], "the first of three errors asks for the same offset again"


@pytest.mark.parametrize("skips", [False, True], ids=["raise", "skip"])
def test_batches_before_bytes_that_are_no_batch_are_handed_out_first(skips: bool) -> None:
    beginning = batch("a", "b")
    broken = bytearray(batch("c", base=2))
    broken[MAGIC_AT] = 77
    option = "skip" if skips else "raise"
    with Leader(beginning + broken, end=3) as leader, connect(leader, on_corrupt=option) as connector:
        loop = iter(connector.stream("t"))
        assert [next(loop).value, next(loop).value] == [b"a", b"b"]


def test_a_read_ends_although_its_last_batch_is_skipped() -> None:
    told: list[tuple[int, int]] = []
    spoilt = bytearray(batch("b", "c", base=1))
    spoilt[-1] ^= 1
    with Leader(batch("a") + bytes(spoilt), end=3) as leader:
        found = read(
            leader.address,
            "t",
            end=2,
            fetch_max_wait_ms=50,
            on_corrupt=lambda each: told.append((each.first_offset, each.next_offset)),
        )
        assert [message.value for message in found] == [b"a"]
    assert told == [(1, 3)]

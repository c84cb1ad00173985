"""When a consumer warns of an open transaction that holds it up, and when it tells that the wait is over."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.open_transactions import OpenTransactions
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.errors import KafkaError, UnsupportedVersionError
from pyklient.net.lookups.open_transactions import PartitionProducer, TransactionListing
from pyklient.protocol.messages import FetchResponse
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import wait_for

WHERE = TopicPartition("t", 0)
BOUND = 60.0


class Brokers:
    """Brokers that answer the look-ups of a client in order. An answer may be an error."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    def play(self, dialogue: Any, timeout: float) -> object:
        dialogue.close()
        answer = self._answers.pop(0)
        if isinstance(answer, KafkaError):
            raise answer
        return answer


@contextmanager
def watching(*answers: object, **options: Any) -> Iterator[OpenTransactions]:
    """Yield the OpenTransactions of a client with these options."""
    config = ConsumerConfig(**{"isolation_level": "read_committed", **options})
    client: Any = Brokers(*answers)
    watched = OpenTransactions(client, config)
    yield watched
    watched.close()
    watched.join(time.monotonic() + 30)


def cursor_at(position: int, end: int | None = None) -> Cursor:
    return Cursor(OwnedPartition(WHERE), position=position, reset="latest", end=end)


def answered(
    stable: int, high_watermark: int, code: int = 0
) -> FetchResponse.FetchableTopicResponse.PartitionData:
    return FetchResponse.PartitionData(
        partition_index=0, error_code=code, high_watermark=high_watermark, last_stable_offset=stable
    )


def events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.event for record in caplog.records if hasattr(record, "event")]


BEGAN, ENDED = "open_transaction_wait_began", "open_transaction_wait_ended"


def test_a_wait_is_reported_once_after_the_bound_and_once_at_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    owner = PartitionProducer(4001, 3, 0, 0, -1, 17)
    with watching(owner, [TransactionListing("orders-1", 4001, "Ongoing", 1)]) as watched:
        watched.note(cursor_at(17), answered(17, 20), 0.0)
        watched.note(cursor_at(17), answered(17, 30), 1.0)
        watched.check(BOUND - 0.1)
        watched.check(BOUND)
        watched.check(BOUND + 1)
        watched.note(cursor_at(20), answered(30, 30), 75.0)
        wait_for(lambda: ENDED in events(caplog), "the end of the wait")
    assert events(caplog) == [BEGAN, ENDED]
    began, ended = caplog.messages
    assert began == (
        "reading of t-0 has waited for 60 s at offset 17 for the end of an open transaction; it was begun by "
        "the producer with the transactional id 'orders-1' (producer id 4001, epoch 3). Later records cannot "
        "be read under read_committed before the transaction ends"
    )
    assert ended == "the open transaction at offset 17 of t-0 has ended, after 75 s"
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_a_wait_for_the_next_transaction_is_another_one(caplog: pytest.LogCaptureFixture) -> None:
    with watching(None) as watched:
        for number in range(10):
            watched.note(cursor_at(number), answered(number, 100), number * BOUND / 2)
            watched.check(number * BOUND / 2)
        watched.check(5.5 * BOUND)
        wait_for(lambda: BEGAN in events(caplog), "the warning")
    assert events(caplog) == [BEGAN]
    assert "at offset 9 for" in caplog.text
    assert "the broker knows no producer whose transaction begins there" in caplog.text


def test_a_reader_that_has_not_come_to_the_transaction_does_not_wait(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with watching() as watched:
        watched.note(cursor_at(16), answered(17, 20), 0.0)
        watched.check(BOUND)
        watched.note(cursor_at(17, end=17), answered(17, 20), 0.0)  # a read() ends there
        watched.check(BOUND)
        watched.note(cursor_at(20), answered(20, 20), 0.0)
        watched.check(BOUND)
        watched.note(cursor_at(20), answered(-1, 30), 0.0)  # a broker without transactions
        watched.check(BOUND)
    assert events(caplog) == []


@pytest.mark.parametrize(
    "options", [{"isolation_level": "read_uncommitted"}, {"open_transaction_warning_ms": None}]
)
def test_there_is_no_warning_where_none_is_wanted(
    options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with watching(**options) as watched:
        watched.note(cursor_at(17), answered(17, 20), 0.0)
        watched.check(10 * BOUND)
    assert events(caplog) == []


def test_the_end_of_a_wait_says_why_it_has_ended(caplog: pytest.LogCaptureFixture) -> None:
    too_old = UnsupportedVersionError("broker 1 is too old")
    with watching(too_old, PartitionProducer(5, 0, 0, 0, -1, 17), too_old) as watched:
        watched.note(cursor_at(17), answered(17, 20), 0.0)
        watched.check(BOUND)
        watched.note(cursor_at(3), answered(-1, -1, code=6), 61.0)
        watched.note(cursor_at(3), answered(17, 20), 62.0)
        watched.note(cursor_at(17), answered(17, 20), 100.0)
        watched.check(100 + BOUND)
        watched.drop(WHERE)
        watched.drop(WHERE)
        wait_for(lambda: len(caplog.messages) == 4, "four messages")
    assert events(caplog) == [BEGAN, ENDED, BEGAN, ENDED]
    assert "it is not known which producer has begun it: broker 1 is too old" in caplog.messages[0]
    assert "not waited for any more, because reading has gone back, after 62 s" in caplog.messages[1]
    assert "it was begun by the producer with producer id 5, epoch 0" in caplog.messages[2]
    assert "because the partition is not read any more" in caplog.messages[3]

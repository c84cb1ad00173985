"""Requests for large batches end soon after a whole batch, so that few bytes are fetched twice."""

from typing import Any, Final

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.fetch.cut_batches import cut_batch_size, without_cut_batch
from pyklient.kernel import encode_batch
from pyklient.protocol.messages import FetchRequest, FetchResponse
from tests.consumer.fetch.leader import Leader

_VALUE: Final = b"x" * 100_000
_BATCHES: Final = [encode_batch([(0, None, _VALUE, ())], base_offset=offset) for offset in range(14)]
_SIZE: Final = len(_BATCHES[0])
_LIMIT: Final = 450_000


class CuttingLeader(Leader):
    """A leader that cuts the data of its partition at the number of bytes in the request, as Kafka does."""

    def __init__(self) -> None:
        super().__init__(end=len(_BATCHES))
        self.asked: list[int] = []
        self.sent: list[int] = []
        whole = self._handlers[FetchRequest]

        def cut(request: FetchRequest) -> Any:
            answer = whole(request)
            assert isinstance(answer, FetchResponse)
            for topic in answer.responses:
                wanted = request.topics[0].partitions[0]
                records = b"".join(_BATCHES[wanted.fetch_offset :])[: wanted.partition_max_bytes]
                topic.partitions[0].records = records
                self.asked.append(wanted.partition_max_bytes)
                self.sent.append(len(records))
            return answer

        self.on(FetchRequest, cut)


def test_after_a_batch_was_cut_off_requests_ask_for_whole_batches() -> None:
    with (
        CuttingLeader() as leader,
        ConsumerConnector(
            leader.address,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_LIMIT,
            fetch_max_wait_ms=50,
        ) as connector,
    ):
        messages = iter(connector.stream("t"))
        assert [next(messages).offset for _ in _BATCHES] == [*range(14)]
    asked = 4 * _SIZE + _SIZE // 16
    assert leader.asked[:4] == [_LIMIT, asked, asked, asked]
    assert leader.sent[3] == 2 * _SIZE, "the last two batches"


def test_a_request_asks_for_at_least_the_bytes_that_the_broker_waits_for() -> None:
    with (
        CuttingLeader() as leader,
        ConsumerConnector(
            leader.address,
            auto_offset_reset="earliest",
            max_partition_fetch_bytes=_LIMIT,
            fetch_min_bytes=_LIMIT,
            fetch_max_wait_ms=50,
        ) as connector,
    ):
        messages = iter(connector.stream("t"))
        assert [next(messages).offset for _ in _BATCHES] == [*range(14)]
    assert leader.asked[:4] == [_LIMIT] * 4


def test_the_size_of_a_batch_is_known_from_its_first_bytes() -> None:
    records = memoryview(_BATCHES[0] + _BATCHES[1])
    assert cut_batch_size(records[: _SIZE + 17], _SIZE) == _SIZE
    assert cut_batch_size(records[: _SIZE + 16], _SIZE) == 0, "its length has not arrived"
    assert cut_batch_size(records[:_SIZE], _SIZE) == 0, "no batch is cut off"
    assert cut_batch_size(memoryview(encode_batch([(0, None, b"small", ())])), 0) == 0
    assert cut_batch_size(memoryview(b"\0" * 8 + b"\xff" * 20), 0) == 0, "its length is negative"


@pytest.mark.parametrize(
    ("first", "known"), [(1_000, False), (90_000, False), (95_000, True), (105_000, True)]
)
def test_the_size_of_a_cut_batch_counts_if_the_first_batch_has_about_the_same_size(
    first: int, known: bool
) -> None:
    whole = encode_batch([(0, None, b"x" * first, ())])
    records = memoryview(whole + _BATCHES[1][:50])
    assert cut_batch_size(records, len(whole)) == (_SIZE if known else 0)


@pytest.mark.parametrize(
    ("limit", "size", "least", "asked"),
    [
        (4_194_304, 1_000_000, 1, 4_062_500),
        (4_194_304, 1_048_588, 3_211_300, 3_145_764 + 65_536),
        (4_194_304, 1_048_588, 3_211_301, 4_194_304),
        (4_194_304, 1_048_576, 1, 4_194_304),
        (4_194_304, 2_500_000, 0, 2_656_250),
        (65_536, 1_000_000, 1, 65_536),
    ],
)
def test_the_bytes_that_are_asked_for_hold_as_many_batches_as_the_limit(
    limit: int, size: int, least: int, asked: int
) -> None:
    assert without_cut_batch(limit, size, least) == asked
    assert asked // size == limit // size

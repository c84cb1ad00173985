"""Fetches from brokers that limit the bytes of a partition only, and that cut off messages."""

from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.fetch.partial_messages import as_many_as_fit
from pyklient.errors import MessageTooLargeError
from pyklient.kernel import encode_batch
from pyklient.protocol.messages import FetchRequest, FetchResponse
from tests.consumer.fetch.leader import Leader
from tests.consumer.stream.bench import Bench
from tests.servers.process import wait_until

_SET = encode_batch([(-1, None, b"x" * 10_000, ())], magic=0)


class OldLeader(Leader):
    """A leader before 0.10.1: its responses end at the number of bytes that was asked for."""

    def __init__(self) -> None:
        super().__init__(_SET)
        self._versions[FetchRequest.api_key] = (0, 2)
        self.sizes: list[int] = []
        whole = self._handlers[FetchRequest]

        def cut(request: FetchRequest) -> Any:
            answer = whole(request)
            assert isinstance(answer, FetchResponse)
            most = request.topics[0].partitions[0].partition_max_bytes
            self.sizes.append(most)
            for topic in answer.responses:
                topic.partitions[0].records = bytes(topic.partitions[0].records or b"")[:most]
            return answer

        self.on(FetchRequest, cut)


def connect(leader: Leader, **options: Any) -> ConsumerConnector:
    return ConsumerConnector(leader.address, auto_offset_reset="earliest", fetch_max_wait_ms=50, **options)


def test_a_message_that_was_cut_off_is_asked_for_with_twice_the_bytes() -> None:
    """Row 47 of the classic consumer, which left the doubling to its user."""
    with OldLeader() as leader, connect(leader, max_partition_fetch_bytes=1_000) as connector:
        assert next(iter(connector.stream("t"))).value == b"x" * 10_000
        wait_until(lambda: len(leader.sizes) > 4, 60, "the fetch of the next message")
    assert leader.sizes[:4] == [1_000, 4_096, 8_192, 16_384]
    assert {*leader.sizes[4:]} <= {1_000}, "the next message may be small again"


def test_a_message_that_is_larger_than_a_response_may_be_is_an_error_that_names_it() -> None:
    options = {"max_partition_fetch_bytes": 1_000, "fetch_max_bytes": 9_000}
    with OldLeader() as leader, connect(leader, **options) as connector:
        said = rf"offset 0 of t-0 has {len(_SET)} bytes, which is more than fetch_max_bytes=9000"
        with pytest.raises(MessageTooLargeError, match=said):
            next(iter(connector.stream("t")))
    assert leader.sizes == [1_000, 4_096, 8_192, 9_000]


def test_a_request_names_as_many_partitions_as_a_response_has_room_for() -> None:
    first, second = Bench().cursors
    second.fetch_bytes = 300
    cursors = {cursor.partition: cursor for cursor in (first, second)}
    allowed = {first: 100, second: 100}
    assert as_many_as_fit(cursors, allowed, 400) == {first: 100, second: 300}
    assert [*cursors.values()] == [first, second]
    assert as_many_as_fit(cursors, allowed, 399) == {first: 100}
    assert [*cursors.values()] == [second, first], "the next request begins with the one that was left out"
    assert as_many_as_fit(cursors, allowed, 10) == {first: 100}, "one, however large"

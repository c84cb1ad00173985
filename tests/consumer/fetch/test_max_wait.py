"""The time that a broker may wait for data, after a partition has moved to another offset."""

from itertools import islice

import pytest

from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetcher import Fetcher
from pyklient.consumer.fetch.max_wait import MaxWait
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.protocol.messages import FetchRequest
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.test_consumer_connector import connect

T0 = TopicPartition("t", 0)


def test_after_a_move_the_waits_are_short_and_double_each_time() -> None:
    wait = MaxWait(100)
    assert [wait.next_ms([]) for _ in range(2)] == [100, 100]
    wait.note_move()
    assert [wait.next_ms([]) for _ in range(6)] == [10, 20, 40, 80, 100, 100]


def test_while_a_cursor_is_left_out_the_waits_are_short_and_restart_when_its_loop_reads() -> None:
    wait, cursor = MaxWait(500), Cursor(OwnedPartition(T0), position=0, reset="earliest")
    assert [wait.next_ms([cursor]) for _ in range(5)] == [20, 40, 80, 100, 100]
    cursor.note_decoded(1)
    assert [wait.next_ms([cursor]) for _ in range(2)] == [10, 20]
    assert MaxWait(5).next_ms([cursor]) == 5


def test_one_seek_after_another_does_not_wait_for_the_broker_each_time(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    request = Fetcher._request

    def recording(fetcher: Fetcher, version: int, max_wait_ms: int) -> FetchRequest:
        waits.append(max_wait_ms)
        return request(fetcher, version, max_wait_ms)

    monkeypatch.setattr(Fetcher, "_request", recording)
    partition = TopicPartition(feed.topic(1, *"ab"), 0)
    with connect(feed, fetch_max_wait_ms=60) as connector:
        stream = connector.stream(partition.topic)
        messages = iter(stream)
        assert len(list(islice(messages, 2))) == 2
        wait_for(lambda: waits[1:] and waits[-1] == 60, "a wait at the end of the log")
        for _ in range(3):
            del waits[:]
            stream.seek(partition, 0)
            assert next(messages).offset == 0
            wait_for(lambda: 10 in waits, "a short wait")

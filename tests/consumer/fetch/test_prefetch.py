"""The number of bytes that a consumer fetches ahead while no loop reads, counted in its broker's
responses."""

from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.fetch.fetcher_handover import FetchedPartition, within_queues
from pyklient.protocol.messages import FetchRequest, FetchResponse
from tests.consumer.feed import Feed, wait_for
from tests.consumer.stream.bench import Bench, batch, values
from tests.servers.recording_proxy import RecordingProxy

KIB = 1024
BATCH = 10
VALUE = bytes(1_000)
PARTITIONS = 4


@pytest.fixture(scope="module")
def long_topic(feed: Feed) -> str:
    """Create a topic of four partitions with 4 MiB each, in batches of 10 kB."""
    topic = feed.topic(PARTITIONS)
    for partition in range(PARTITIONS):
        for _ in range(4096 * KIB // (BATCH * len(VALUE))):
            feed.send(topic, [VALUE] * BATCH, partition=partition)
    return topic


@pytest.mark.parametrize("budget", [1024 * KIB, 4096 * KIB])
@pytest.mark.parametrize("streams", [1, PARTITIONS])
def test_streams_that_are_not_read_fetch_no_more_ahead_than_their_budget(
    feed: Feed, long_topic: str, budget: int, streams: int
) -> None:
    with (
        RecordingProxy(feed.bootstrap_servers, FetchRequest) as proxy,
        ConsumerConnector(
            proxy.bootstrap_servers, auto_offset_reset="earliest", prefetch_max_bytes=budget
        ) as connector,
    ):
        connector.create_message_streams({long_topic: streams})
        room = connector._fetchers._budget
        wait_for(
            lambda: room.cursors and all(cursor.on_decoded is not None for cursor in room.cursors),
            "a fetcher that waits for room",
        )
        fetched = sum(
            len(data.records or b"")
            for exchange in proxy.exchanges
            if isinstance(exchange.response, FetchResponse)
            for topic in exchange.response.responses
            for data in topic.partitions
        )
        waiting = sum(cursor.waiting_bytes for cursor in room.cursors)
    assert fetched == waiting
    assert budget / 2 < fetched <= budget


@pytest.mark.parametrize("most", [1, 3])
def test_a_stream_with_as_many_chunks_as_the_option_allows_is_not_fetched_for_and_gets_all_messages(
    feed: Feed, long_topic: str, most: int
) -> None:
    with ConsumerConnector(
        feed.bootstrap_servers,
        auto_offset_reset="earliest",
        queued_max_message_chunks=most,
        max_partition_fetch_bytes=128 * KIB,
    ) as connector:
        stream = connector.stream(long_topic)
        queue, cursors = stream._core.queue, connector._fetchers._budget
        wait_for(
            lambda: cursors.cursors and all(cursor.on_decoded is not None for cursor in cursors.cursors),
            "a fetcher that waits for space in the queue",
        )
        largest = most - 1 + PARTITIONS
        assert most <= len(queue.items) <= largest
        total = PARTITIONS * (4096 * KIB // (BATCH * len(VALUE))) * BATCH
        offsets: dict[int, list[int]] = {}
        for message in islice(stream, total):
            offsets.setdefault(message.partition, []).append(message.offset)
            assert len(queue.items) <= largest
    assert offsets == {number: list(range(total // PARTITIONS)) for number in range(PARTITIONS)}


def test_a_chunk_that_is_read_lets_all_fetchers_of_its_stream_continue() -> None:
    """The brokers that lead the partitions of a stream have a fetcher each."""
    bench = Bench()
    bench.stream.queue.most_chunks = 1
    bench.put(batch("a"), then=1)
    states = [FetchedPartition(cursor, bench.stream.queue) for cursor in bench.cursors]
    assert within_queues(states) == []
    woken = []
    bench.cursors[1].on_decoded = lambda: woken.append(1)
    assert values(list(islice(bench.stream, 1))) == ["a"]
    assert woken == [1]
    assert within_queues(states) == states


def test_partitions_without_new_records_do_not_keep_another_from_being_read(feed: Feed) -> None:
    topic = feed.topic(4)
    options: dict[str, Any] = {"consumer_timeout_ms": 10_000, "queued_max_message_chunks": 1}
    with ConsumerConnector(feed.bootstrap_servers, auto_offset_reset="earliest", **options) as connector:
        stream = connector.stream(topic)
        for partition in (3, 0, 2, 1):
            feed.send(topic, [str(partition)], partition)
            assert next(iter(stream)).partition == partition

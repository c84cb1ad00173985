"""The number of bytes that a consumer fetches ahead while no loop reads, counted in its broker's
responses."""

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.protocol.messages import FetchRequest, FetchResponse
from tests.consumer.feed import Feed, wait_for
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

"""``KafkaStream.batch_offsets``: the offsets that a transaction may commit, and when they are lost."""

import threading
from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.errors import CommitError, ConfigurationError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed, wait_for


def connect(feed: Feed, group: str, **options: Any) -> ConsumerConnector:
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, **options}
    return ConsumerConnector(feed.bootstrap_servers, group_id=group, **given)


def test_the_offsets_after_a_batch_come_with_the_metadata_of_the_member(feed: Feed) -> None:
    topic, group = feed.topic(2, "a", "b", "c"), feed.name()
    with connect(feed, group) as connector:
        stream = connector.stream(topic)
        batches = stream.batches(max_records=2, timeout=30)
        batch = next(batches)
        found = stream.batch_offsets(batch)
        assert found.offsets == {TopicPartition(topic, 0): OffsetAndMetadata(2, leader_epoch=0)}
        assert found.group_metadata == connector.group_metadata()
        assert stream.batch_offsets(next(batches)).offsets[TopicPartition(topic, 0)].offset == 3
        assert stream.batch_offsets([]).group_metadata == connector.group_metadata()


@pytest.mark.parametrize(("assignor", "patience_ms"), [("range", 1_000), ("cooperative-sticky", 60_000)])
def test_a_batch_whose_partitions_were_revoked_has_no_offsets(
    feed: Feed, assignor: str, patience_ms: int
) -> None:
    """Also if the partition has come back: its messages are handed out again."""
    topic, group = feed.topic(1, "a", "b"), feed.name()
    options: dict[str, Any] = {
        "rebalance_timeout_ms": patience_ms,
        "heartbeat_interval_ms": 50,
        "partition_assignment_strategy": assignor,
    }
    with connect(feed, group, **options) as connector, connect(feed, group, **options) as other:
        stream = connector.stream(topic)
        batch = next(stream.batches(timeout=30))
        before = connector.group_metadata()
        assert stream.batch_offsets(batch).group_metadata == before
        joining = threading.Thread(target=other.stream, args=(topic,))
        joining.start()
        try:
            wait_for(lambda: connector.group_metadata() != before, "the next generation")
            if assignor == "range":
                with pytest.raises(CommitError, match=f"lost these partitions .*: {topic}-0; abort"):
                    stream.batch_offsets(batch)
            else:
                assert stream.batch_offsets(batch).group_metadata == connector.group_metadata(), "it stays"
        finally:
            joining.join(30)


def test_a_batch_before_a_seek_has_no_offsets(feed: Feed) -> None:
    topic = feed.topic(1, "a", "b")
    with connect(feed, feed.name()) as connector:
        stream = connector.stream(topic)
        batch = next(stream.batches(max_records=1, timeout=30))
        stream.seek(TopicPartition(topic, 0), "end")
        with pytest.raises(CommitError, match=f"{topic}-0"):
            stream.batch_offsets(batch)


def test_offsets_that_would_be_committed_elsewhere_too_are_an_error(feed: Feed) -> None:
    topic = feed.topic(1, "a")
    with connect(feed, feed.name(), enable_auto_commit=True) as connector:
        stream = connector.stream(topic)
        with pytest.raises(ConfigurationError, match="set enable_auto_commit=False"):
            stream.batch_offsets(next(stream.batches(timeout=30)))
    with ConsumerConnector(feed.bootstrap_servers, auto_offset_reset="earliest") as connector:
        stream = connector.stream(topic)
        with pytest.raises(ConfigurationError, match="set group_id"):
            stream.batch_offsets(next(stream.batches(timeout=30)))

"""A commit stores the leader epoch of the last record before the offset (KIP-320)."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.kernel import Message
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed
from tests.consumer.test_consumer_connector import connect

_EPOCHS = {1: 3, 2: 3, 3: 3, 4: 3, 5: 6, 6: 6}
"""The leader epoch of the record before each offset."""


@pytest.fixture
def partition(feed: Feed) -> TopicPartition:
    """A partition with three batches of two records, and the leader epochs 3, 3 and 6."""
    topic = feed.topic(1)
    for texts in ("ab", "cd", "ef"):
        feed.send(topic, texts)
    feed.set_leader_epochs(topic, [3, 3, 6])
    return TopicPartition(topic, 0)


def test_each_position_is_committed_with_the_leader_epoch_of_the_record_before_it(
    feed: Feed, partition: TopicPartition
) -> None:
    with connect(feed, feed.name(), enable_auto_commit=False) as connector:
        stream = connector.stream(partition.topic)
        found = {}
        for _, message in zip(range(6), stream, strict=False):
            stream.commit_offsets()
            at = stream.committed(partition)
            assert at is not None
            assert at.offset == message.offset + 1
            found[at.offset] = at.leader_epoch
    assert found == _EPOCHS


@pytest.mark.parametrize(
    "loop",
    [lambda it: it.batches(1, timeout=30), lambda it: it.arrow_batches(1, timeout=30)],
    ids=["lists", "arrow"],
)
def test_a_message_in_hand_that_is_not_committed_does_not_count(
    feed: Feed, partition: TopicPartition, loop: Callable[[KafkaStream], Any]
) -> None:
    group = feed.name()

    def handle_some() -> None:
        with connect(feed, group) as connector:
            for number, _ in enumerate(loop(connector.stream(partition.topic))):
                if number == 4:  # the message at offset 4, of the next leader epoch
                    raise ValueError("stop here")

    with pytest.raises(ValueError, match="stop here"):
        handle_some()
    with connect(feed, group) as connector:
        assert connector.stream(partition.topic).committed(partition) == OffsetAndMetadata(4, leader_epoch=3)


def test_the_leader_epoch_of_an_offset_that_was_not_read_is_not_known(
    feed: Feed, partition: TopicPartition
) -> None:
    with connect(feed, feed.name(), enable_auto_commit=False) as connector:
        stream = connector.stream(partition.topic)
        messages = iter(stream)
        stream.seek(partition, 2)
        stream.commit_offsets()
        assert stream.committed(partition) == OffsetAndMetadata(2)
        assert next(messages).offset == 2
        stream.commit_offsets()
        assert stream.committed(partition) == OffsetAndMetadata(3, leader_epoch=3)
        connector.commit_offsets({partition: OffsetAndMetadata(5, "by hand", 4)})
        assert stream.committed(partition) == OffsetAndMetadata(5, "by hand", 4), "the program's own"


def test_handlers_in_parallel_commit_the_epoch_before_the_first_message_in_hand(
    feed: Feed, partition: TopicPartition
) -> None:
    others, go_on = threading.Semaphore(0), threading.Event()

    def handle(message: Message) -> None:
        if message.offset == 1:
            assert go_on.wait(30)
        others.release()

    with connect(feed, feed.name(), enable_auto_commit=False) as connector:
        consumer = connector.parallel(partition.topic, handle, workers=2, order="unordered")
        runner = threading.Thread(target=consumer.run)
        runner.start()
        for _ in range(5):
            assert others.acquire(timeout=10)
        connector.commit_offsets()
        [at] = [connector._store.fetch([partition], 10.0)[partition]]
        go_on.set()
        consumer.stop()
        runner.join()
    assert at is not None
    assert (at.offset, at.leader_epoch) == (1, 3), "although messages of the leader epoch 6 are done"

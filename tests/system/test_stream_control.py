"""Seek, pause and lag of streams on every broker."""

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from pyklient import Producer, TopicPartition
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed
from tests.system.reading import connector


@pytest.mark.brokers(min="0.10.1")
def test_a_stream_reads_from_wherever_it_is_sent_and_commits_that(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, timestamp_ms=1_600_000_000_000 + 1000 * number)
            producer.flush()
    half = datetime.fromtimestamp(1_600_000_004.5, UTC)
    with connector(bootstrap, group, fetch_max_wait_ms=50) as reader:
        stream = reader.stream(topic)
        messages = iter(stream)
        assert [next(messages).offset for _ in range(4)] == [0, 1, 2, 3]
        places: list[tuple[Any, int]] = [(8, 8), ("beginning", 0), (half, 5), (2, 2)]
        for to, offset in places:
            stream.seek(partition, to)
            assert stream.position(partition) == offset
            assert next(messages).offset == offset
        assert stream.lag() == {partition: 7}
        stream.pause(partition)
        assert next(stream.batches(timeout=0.3)) == []
        stream.resume(partition)
        assert [each.offset for each in itertools.islice(stream, 2)] == [3, 4]
        stream.seek(partition, "end")
        stream.commit_offsets()
        found = stream.committed(partition)
        assert found is not None
        assert found.offset == 10
        stream.seek(partition, 6)
    assert committed(bootstrap, group, topic) == {0: 6}

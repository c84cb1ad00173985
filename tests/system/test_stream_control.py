"""Seek, pause and lag of streams on every broker."""

import itertools
from datetime import UTC, datetime
from typing import Any

import pytest

from pyklient import CommitError, Producer, TopicPartition
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


@pytest.mark.brokers(min="0.10.1")
def test_partitions_chosen_by_hand_begin_where_they_are_told_and_are_committed_without_a_member(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    with Producer(bootstrap) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=1, timestamp_ms=1_600_000_000_000 + 1000 * number)
            producer.flush()
    chosen = TopicPartition(topic, 1)
    with connector(bootstrap, group, auto_commit_interval_ms=100) as reader:
        stream = reader.assign({topic: [1]}, start={chosen: datetime.fromtimestamp(1_600_000_002, UTC)})
        assert [each.value for each in itertools.islice(stream, 2)] == [b"2", b"3"]
        stream.commit_offsets()
    assert committed(bootstrap, group, topic) == {1: 4}
    with connector(bootstrap, group) as reader:
        assert next(iter(reader.assign([chosen]))).value == b"4"
    with connector(bootstrap, group) as member, connector(bootstrap, group) as reader:
        member.stream(topic)
        stream = reader.assign([chosen], start="beginning")
        next(iter(stream))
        with pytest.raises(CommitError, match="use another group_id"):
            stream.commit_offsets(timeout=10)

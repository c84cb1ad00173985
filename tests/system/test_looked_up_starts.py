"""Where a group begins without a committed offset is a position: the next owner goes on from there."""

import itertools

import pytest

from pyklient import ConsumerConnector, Producer
from pyklient.consumer.kafka_stream import KafkaStream
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed, wait_committed
from tests.system.reading import connector


def send(bootstrap: str, topic: str, partition: int, count: int) -> None:
    """*count* records with their numbers as values."""
    with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, partition=partition)


def wait_started(bootstrap: str, stream: KafkaStream, probe: str) -> None:
    """Return once *stream*, which reads the topic *probe* too, knows where to begin: one broker leads all its
    partitions, and they are looked up together. Its loop is left then, with nothing else handed out."""
    while True:
        send(bootstrap, probe, 0, 1)
        for batch in stream.batches(max_records=1, timeout=0.5):
            if batch:
                assert batch[0].topic == probe
                return
            break


@pytest.mark.parametrize(("reset", "old_records", "start"), [("latest", 3, 3), ("earliest", 0, 0)])
def test_records_that_come_after_a_member_has_closed_reach_the_next_one_though_it_was_handed_nothing(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, reset: str, old_records: int, start: int
) -> None:
    topic, probe, group = new_topic(), new_topic(), new_name()
    send(bootstrap, topic, 0, old_records)
    with connector(bootstrap, group, auto_offset_reset=reset, auto_commit_interval_ms=600_000) as first:
        wait_started(bootstrap, first.stream(topic, probe), probe)
        assert committed(bootstrap, group, topic) == {}
    assert committed(bootstrap, group, topic) == {0: start}
    send(bootstrap, topic, 0, 5)
    with connector(bootstrap, group, auto_offset_reset="latest") as second:
        messages = list(itertools.islice(second.stream(topic), 5))
    assert [message.value for message in messages] == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.slow
def test_records_that_come_before_a_rebalance_reach_the_member_that_gets_their_partition(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, probe, group = new_topic(partitions=2), new_topic(), new_name()
    options = {"auto_offset_reset": "latest", "auto_commit_interval_ms": 600_000}
    with connector(bootstrap, group, **options) as first:
        wait_started(bootstrap, first.stream(topic, probe), probe)
        for partition in range(2):
            send(bootstrap, topic, partition, 5)
        with connector(bootstrap, group, **options) as second:
            messages = list(itertools.islice(second.stream(topic), 5))
    assert [message.value for message in messages] == [b"0", b"1", b"2", b"3", b"4"]
    assert len({message.partition for message in messages}) == 1


def test_the_start_of_a_partition_without_messages_is_committed_automatically(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    send(bootstrap, topic, 0, 3)
    with connector(bootstrap, group, auto_offset_reset="latest", auto_commit_interval_ms=100) as reader:
        reader.stream(topic)
        wait_committed(bootstrap, group, topic, {0: 3})


def test_without_automatic_commit_the_start_is_committed_by_the_user_alone(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, probe, group = new_topic(), new_topic(), new_name()
    send(bootstrap, topic, 0, 3)

    def start(reader: ConsumerConnector) -> KafkaStream:
        stream = reader.stream(topic, probe)
        wait_started(bootstrap, stream, probe)
        return stream

    options = {"auto_offset_reset": "latest", "enable_auto_commit": False, "auto_commit_interval_ms": 50}
    with connector(bootstrap, group, **options) as reader:
        start(reader)
    assert committed(bootstrap, group, topic) == {}
    with connector(bootstrap, group, **options) as reader:
        start(reader)
        reader.commit_offsets()
        assert committed(bootstrap, group, topic) == {0: 3}
    other = new_name()
    with connector(bootstrap, other, **options) as reader:
        start(reader).commit_offsets()
        assert committed(bootstrap, other, topic) == {0: 3}

"""Records are read as they were produced: keys, headers, timestamps, offsets, order, for every codec."""

import datetime
import hashlib
import random
import time
from typing import Any

import pytest

from pyklient import (
    Message,
    MessageTooLargeError,
    Producer,
    RecordMetadata,
    SimpleConsumer,
    TopicPartition,
    read,
)
from tests.run.seed import dice
from tests.servers.fixtures import NewName, NewTopic
from tests.system.reading import read_group

pytestmark = pytest.mark.both_kernels

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def everything(bootstrap: str, topic: str) -> list[Message]:
    """All messages of a topic with one partition."""
    return list(read(bootstrap, topic, start=0))


def test_a_record_arrives_with_its_key_headers_and_timestamp(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    headers = [("trace", b"1"), ("trace", b"2"), ("empty", b""), ("none", None), ("ключ", b"\x00\xff")]
    with Producer(bootstrap) as producer:
        delivery = producer.send(
            topic, b"value", key=b"key", partition=0, timestamp_ms=1_600_000_000_123, headers=headers
        )
        assert delivery.result(timeout=30) == RecordMetadata(topic, 0, 0, 1_600_000_000_123)
    (message,) = everything(bootstrap, topic)
    assert (message.topic, message.partition, message.offset) == (topic, 0, 0)
    assert (message.timestamp_ms, message.timestamp_type) == (1_600_000_000_123, 0)
    assert (message.key, message.value) == (b"key", b"value")
    assert message.headers == tuple(headers)


def test_absent_and_empty_keys_and_values_stay_apart(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    pairs = [(None, b""), (b"", None), (b"", b""), (None, None)]
    with Producer(bootstrap) as producer:
        for key, value in pairs:
            producer.send(topic, value, key=key)
    assert [(message.key, message.value) for message in everything(bootstrap, topic)] == pairs


@pytest.mark.parametrize("codec", CODECS)
def test_records_of_all_sizes_arrive_in_order_with_each_codec(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, codec: Any
) -> None:
    topic = new_topic()
    chance = dice("sizes", codec)
    sizes = [0, 1, 100_000, *(chance.randrange(2_000) for _ in range(2_000))]
    values = [chance.randbytes(size // 2) + b"a" * (size - size // 2) for size in sizes]
    with Producer(bootstrap, compression_type=codec, batch_size=50_000) as producer:
        for number, value in enumerate(values):
            producer.send(
                topic, value, key=b"%d" % number, headers=[("n", b"%d" % number)], timestamp_ms=number
            )
    messages = read_group(bootstrap, new_name(), topic, len(values))
    assert [message.value for message in messages] == values
    assert [message.offset for message in messages] == list(range(len(values)))
    assert [message.key for message in messages] == [b"%d" % number for number in range(len(values))]
    assert [message.timestamp_ms for message in messages] == list(range(len(values)))
    assert all(message.headers == (("n", message.key),) for message in messages)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_each_acks_level_delivers_every_record(bootstrap: str, new_topic: NewTopic, acks: Any) -> None:
    topic = new_topic()
    with Producer(bootstrap, acks=acks, batch_size=1_000) as producer:
        deliveries = [producer.send(topic, b"%d" % number) for number in range(500)]
        producer.flush(timeout=60)
        offsets = [delivery.result(timeout=0).offset for delivery in deliveries]
    assert offsets == ([-1] * 500 if acks == 0 else list(range(500)))
    with SimpleConsumer(bootstrap) as reader:
        found: list[Message] = []
        deadline = time.monotonic() + 30
        while len(found) < 500 and time.monotonic() < deadline:
            found += reader.fetch(topic, 0, len(found), 1_000_000).messages
    assert [message.value for message in found] == [b"%d" % number for number in range(500)]


def test_a_key_keeps_its_partition_and_its_order(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=6)
    with Producer(bootstrap, batch_size=2_000) as producer:
        for number in range(6_000):
            producer.send(topic, b"%d" % number, key=b"user-%d" % (number % 50))
    by_key: dict[bytes | None, list[int]] = {}
    homes: dict[bytes | None, set[int]] = {}
    starts = {TopicPartition(topic, partition): 0 for partition in range(6)}
    for message in read(bootstrap, topic, start=starts):
        by_key.setdefault(message.key, []).append(int(message.value))
        homes.setdefault(message.key, set()).add(message.partition)
    assert len(by_key) == 50
    assert all(len(partitions) == 1 for partitions in homes.values())
    assert all(numbers == sorted(numbers) and len(numbers) == 120 for numbers in by_key.values())
    assert len(set().union(*homes.values())) > 1


def test_a_chosen_partition_is_used(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    with Producer(bootstrap) as producer:
        for partition in (2, 0, 1, 2):
            assert producer.send(topic, b"x", partition=partition).result(timeout=30).partition == partition


def test_many_values_in_one_call_come_back_as_offset_ranges(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        bulk = producer.send_many(topic, (b"%d" % number for number in range(50_000)))
        assert bulk.count == 50_000
        ranges = bulk.result(timeout=60)
    assert sum(len(offsets) for runs in ranges.values() for offsets in runs) == 50_000
    digest = hashlib.sha256(b"".join(b"%d" % number for number in range(50_000))).hexdigest()
    read_back = b"".join(message.value for message in everything(bootstrap, topic))
    assert hashlib.sha256(read_back).hexdigest() == digest


def test_a_record_just_below_the_limit_passes_and_one_above_it_says_what_to_do(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    large = random.randbytes(1_000_000)
    with Producer(bootstrap) as producer:
        assert producer.send(topic, large).result(timeout=30).offset == 0
        with pytest.raises(MessageTooLargeError, match="max_request_size"):
            producer.send(topic, bytes(2_000_000))
    (message,) = everything(bootstrap, topic)
    assert message.value == large


def test_a_record_the_broker_finds_too_large_fails_and_the_next_one_passes(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(max_message_bytes=10_000)
    with Producer(bootstrap, linger_ms=0) as producer:
        refused = producer.send(topic, random.randbytes(20_000))
        error = refused.exception(timeout=30)
        assert isinstance(error, MessageTooLargeError)
        assert topic in str(error)
        assert producer.send(topic, b"small").result(timeout=30).offset == 0


def test_a_topic_with_log_append_time_tells_the_brokers_time(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before = time.time() * 1000 - 60_000
    with Producer(bootstrap) as producer:
        stored = producer.send(topic, b"x", timestamp_ms=17).result(timeout=30)
    (message,) = everything(bootstrap, topic)
    assert before < stored.timestamp_ms < before + 120_000
    assert (message.timestamp_ms, message.timestamp_type) == (stored.timestamp_ms, 1)


def test_a_bounded_read_takes_offsets_and_times(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        for number in range(100):
            producer.send(topic, b"%d" % number, timestamp_ms=1_000_000 + number * 1000)
    middle = datetime.datetime.fromtimestamp(1_050, datetime.UTC)
    late = datetime.datetime.fromtimestamp(1_090, datetime.UTC)
    assert [message.offset for message in read(bootstrap, topic, start=10, end=20)] == list(range(10, 20))
    assert [message.offset for message in read(bootstrap, topic, start=middle, end=late)] == list(
        range(50, 90)
    )
    assert [message.offset for message in read(bootstrap, topic, start=late)] == list(range(90, 100))
    assert list(read(bootstrap, topic, start=100)) == []


def test_single_fetches_go_on_from_where_they_ended(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    with Producer(bootstrap, batch_size=500) as producer:
        for number in range(400):
            producer.send(topic, b"%d" % number, partition=number % 2)
    with SimpleConsumer(bootstrap) as consumer:
        offset, values = 0, []
        while offset < 200:
            fetched = consumer.fetch(topic, 0, offset, 2_000)
            assert fetched.high_watermark == 200
            assert fetched.messages[0].offset == offset
            values += [message.value for message in fetched.messages]
            offset = fetched.next_offset
        assert values == [b"%d" % number for number in range(0, 400, 2)]
        both = consumer.multifetch({TopicPartition(topic, 0): 190, TopicPartition(topic, 1): 199})
        assert both[TopicPartition(topic, 0)].messages[0].offset == 190
        assert [message.value for message in both[TopicPartition(topic, 1)].messages] == [b"399"]


def test_offsets_before_a_time_are_told_newest_first(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [b"x"] * 25)
    with SimpleConsumer(bootstrap) as consumer:
        assert consumer.get_offsets_before(topic, 0, -1, 10)[0] == 25
        assert consumer.get_offsets_before(topic, 0, -2, 10) == [0]

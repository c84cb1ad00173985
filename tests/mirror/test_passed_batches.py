"""Batches are passed on without decoding them where nothing in them changes."""

import uuid
from typing import Any

import pytest

from pyklient import Admin, ConsumerConnector, Producer, TopicPartition
from pyklient.broker import Broker
from pyklient.mirror import copy_sender
from tests.mirror.running import by_partition, running, stored, until

COUNT = 2_000


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:10]}"


def fill(broker: Broker, topic: str, codec: str = "gzip", **options: Any) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topic(topic, 2)
    writing = {"compression_type": codec, "batch_size": 8_000, **options}
    with Producer(broker.bootstrap_servers, **writing) as producer:
        for number in range(COUNT):
            headers = [("trace", b"%d" % number)] if number % 3 else None
            value, key = b"value %d" % number * 5, b"k%d" % (number % 9)
            producer.send(topic, value, key, number % 2, 1_700_000_000_000 + number, headers)


def compressed(broker: Broker, topic: str, group: str) -> list[tuple[Any, ...]]:
    """Return the compressed records of each batch of *topic*, without decompressing them."""
    found, records = [], 0
    ends = stored(broker.bootstrap_servers, topic)
    options: dict[str, Any] = {"shallowiterator_enable": True, "auto_offset_reset": "earliest"}
    with ConsumerConnector(broker.bootstrap_servers, **options) as connector:
        last: dict[int, int] = {}
        for message in connector.stream(topic):
            found.append((message.partition, message.offset, message.value, message.headers))
            last[message.partition] = message.offset + 1
            records = sum(last.values())
            if records == ends:
                return sorted(found)
    raise AssertionError


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_batches_are_the_same_bytes_on_both_sides(
    source: Broker, target: Broker, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = new_name(), new_name()
    fill(source, topic, codec)
    monkeypatch.delattr(copy_sender, "decode")  # Nothing is to be decoded.
    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, group_id=group, keep_partitions=True) as run:
        until(lambda: run.error or stored(target.bootstrap_servers, topic) == COUNT, "all records")
    assert run.error is None
    assert by_partition(target.bootstrap_servers, topic) == by_partition(source.bootstrap_servers, topic)
    if codec != "none":
        assert compressed(target, topic, group) == compressed(source, topic, group)
    with Admin(source.bootstrap_servers) as admin:
        offsets = {tp: each.offset for tp, each in admin.group_offsets(group).items()}
        assert offsets == admin.end_offsets(admin.partitions([topic]))


def test_batches_are_compressed_in_another_way_if_the_target_has_an_option(
    source: Broker, target: Broker
) -> None:
    topic = new_name()
    fill(source, topic, "gzip")
    writing = {"bootstrap_servers": target.bootstrap_servers, "compression_type": "zstd"}
    with running(source.bootstrap_servers, writing, topic, group_id=new_name(), keep_partitions=True):
        until(lambda: stored(target.bootstrap_servers, topic) == COUNT, "all records")
    assert by_partition(target.bootstrap_servers, topic) == by_partition(source.bootstrap_servers, topic)
    codecs = {headers for *_, headers in compressed(target, topic, new_name())}
    assert codecs == {(("compression.codec", b"zstd"),)}


def test_a_batch_that_is_too_large_for_the_target_is_divided(source: Broker, target: Broker) -> None:
    topic = new_name()
    fill(source, topic, "none", batch_size=60_000)
    with Admin(target.bootstrap_servers) as admin:
        admin.create_topic(topic, 2, config={"max.message.bytes": "5000"})
    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, group_id=new_name(), keep_partitions=True):
        until(lambda: stored(target.bootstrap_servers, topic) == COUNT, "all records")
    assert by_partition(target.bootstrap_servers, topic) == by_partition(source.bootstrap_servers, topic)


def test_batches_wait_for_memory_and_keep_their_order_with_records(source: Broker, target: Broker) -> None:
    topic, group = new_name(), new_name()
    fill(source, topic, "none", batch_size=20_000)
    with ConsumerConnector(source.bootstrap_servers, group_id=group) as connector:
        connector.assign({topic: [0]})
        connector.commit_offsets({TopicPartition(topic, 0): 3})  # in the middle of a batch
    writing = {"bootstrap_servers": target.bootstrap_servers, "buffer_memory": 45_000, "linger_ms": 10_000}
    with running(source.bootstrap_servers, writing, topic, group_id=group, keep_partitions=True):
        until(lambda: stored(target.bootstrap_servers, topic) == COUNT - 3, "all records")
    expected = by_partition(source.bootstrap_servers, topic)
    expected[0] = expected[0][3:]
    assert by_partition(target.bootstrap_servers, topic) == expected

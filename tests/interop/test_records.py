"""Every client reads the same records that another one has produced, on every broker and with every codec."""

from typing import Any

import confluent_kafka
import pytest

from pyklient import Producer, TopicPartition, read
from tests.interop.peers import PEERS, Peer, Record
from tests.run.seed import dice
from tests.servers.fixtures import NewTopic
from tests.servers.topics import await_transaction_ends

pytestmark = [pytest.mark.brokers(min="4.3"), pytest.mark.both_kernels]

every_peer = pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
every_codec = pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])


def some_records() -> list[Record]:
    """Return records with every kind of key, value and header, small and large."""
    chance = dice("records")
    edges = [
        Record(None, b"no key", 1_700_000_000_000, ()),
        Record(b"tombstone", None, 1_700_000_000_001, ()),
        Record(b"", b"", 1_700_000_000_002, (("", b""), ("", b""))),
        Record(
            b"key", b"value", 1_700_000_000_003, (("h", b"1"), ("h", b"2"), ("none", None), ("ключ", b"\xff"))
        ),
        Record(b"late", b"early", 1_600_000_000_000, ()),
        Record(b"large", chance.randbytes(50_000) + bytes(50_000), 1_700_000_000_004, ()),
    ]
    many = [
        Record(
            b"%d" % number,
            chance.randbytes(chance.randrange(500)),
            1_700_000_000_100 + number,
            (("n", b"%d" % number),),
        )
        for number in range(1_000)
    ]
    return edges + many


def without_nulls(headers: tuple[tuple[str, bytes | None], ...]) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((name, value or b"") for name, value in headers)


@every_codec
@every_peer
def test_a_peer_reads_what_pyklient_produces(
    bootstrap: str, new_topic: NewTopic, peer: Peer, codec: Any
) -> None:
    topic, records = new_topic(), some_records()
    with Producer(bootstrap, compression_type=codec, batch_size=60_000) as producer:
        for record in records:
            producer.send(
                topic,
                record.value,
                key=record.key,
                partition=0,
                timestamp_ms=record.timestamp_ms,
                headers=list(record.headers),
            )
    assert peer.read(bootstrap, topic, len(records)) == records


@every_codec
@every_peer
def test_pyklient_reads_what_a_peer_produces(
    bootstrap: str, new_topic: NewTopic, peer: Peer, codec: Any
) -> None:
    topic, records = new_topic(), some_records()
    if not peer.sends_null_headers:
        records = [record._replace(headers=without_nulls(record.headers)) for record in records]
    peer.produce(bootstrap, topic, records, codec)
    messages = list(read(bootstrap, topic, start=0))
    found = [Record(item.key, item.value, item.timestamp_ms, item.headers) for item in messages]
    assert found == records
    assert [message.offset for message in messages] == list(range(len(records)))
    assert {message.timestamp_type for message in messages} == {0}


def test_a_key_lands_on_the_partition_where_javas_hash_puts_it(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=7)
    keys = [b"key-%d" % number for number in range(200)]
    stored: list[confluent_kafka.Message] = []
    peer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for key in keys:
        peer.produce(topic, b"theirs", key, on_delivery=lambda _, message: stored.append(message))
    assert peer.flush(60) == 0
    with Producer(bootstrap) as producer:
        ours = {key: producer.send(topic, b"ours", key=key) for key in keys}
        found = {key: delivery.result(timeout=30).partition for key, delivery in ours.items()}
    assert found == {message.key(): message.partition() for message in stored}


@pytest.mark.brokers(needs=["transactions"])
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_aborted_transactions_and_markers_are_not_read(
    bootstrap: str, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": topic, "compression.type": codec}
    )
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for item in range(10):
            producer.produce(topic, b"%d-%d" % (number, item), partition=0)
        assert producer.flush(60) == 0
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    await_transaction_ends(bootstrap, topic)
    everything = [b"%d-%d" % (number, item) for number in range(6) for item in range(10)]
    committed = [value for value in everything if int(value[:1]) % 2 == 0]
    start = {TopicPartition(topic, 0): 0}
    assert [message.value for message in read(bootstrap, topic, start=start)] == everything
    kept = read(bootstrap, topic, start=start, isolation_level="read_committed")
    assert [message.value for message in kept] == committed


@pytest.mark.brokers(needs=["transactions"])
def test_an_open_transaction_is_not_read_before_its_end(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic()
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(60) == 0
    assert list(read(bootstrap, topic, start=0, isolation_level="read_committed")) == []
    assert [message.value for message in read(bootstrap, topic, start=0)] == [b"open"]
    producer.commit_transaction(30)
    await_transaction_ends(bootstrap, topic)
    kept = read(bootstrap, topic, start=0, isolation_level="read_committed")
    assert [message.value for message in kept] == [b"open"]

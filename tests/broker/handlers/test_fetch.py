"""Reading records over the wire."""

import time

import pytest

from pyklient.broker import Broker
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)
from pyklient.protocol.records import Compression, NewRecord, iter_batches
from tests.broker.wire_client import WireClient

Data = FetchResponse.FetchableTopicResponse.PartitionData


def batch(count: int = 3, *, size: int = 10, magic: int = 2, codec: Compression = Compression.NONE) -> bytes:
    records = [NewRecord(1000 + at, b"k%d" % at, bytes([at % 256]) * size) for at in range(count)]
    return encode_batch(records, magic=magic, compression=codec)


def request(
    offset: int = 0,
    *,
    topic: str = "clicks",
    identity: bytes = bytes(16),
    partitions: tuple[int, ...] = (0,),
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 25,
    partition_bytes: int = 1 << 20,
    epoch: int = -1,
) -> FetchRequest:
    wanted = [
        FetchRequest.FetchTopic.FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_bytes,
            current_leader_epoch=epoch,
        )
        for index in partitions
    ]
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        topics=[FetchRequest.FetchTopic(topic=topic, topic_id=identity, partitions=wanted)],
    )


def fetch(client: WireClient, asked: FetchRequest, version: int = 12) -> list[Data]:
    return client.ask(asked, FetchResponse, version).responses[0].partitions


def values(data: Data, offset: int = 0) -> list[tuple[int, bytes | None]]:
    return [
        (record.offset, record.value)
        for found in iter_batches(data.records or b"")
        for record in read_records(found)
        if record.offset >= offset
    ]


@pytest.mark.parametrize("version", range(19))
@pytest.mark.parametrize("codec", list(Compression))
def test_records_are_read_in_every_version_and_codec(
    broker: Broker, client: WireClient, version: int, codec: Compression
) -> None:
    broker.create_topic("clicks")
    client.produce("clicks", 0, batch(3, codec=codec))
    client.produce("clicks", 0, batch(2, codec=codec))
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="clicks")])
    identity = client.ask(asked, MetadataResponse).topics[0].topic_id
    [data] = fetch(client, request(1, identity=identity), version)
    if codec is Compression.ZSTD and version < 4:
        assert data.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        return
    assert data.error_code == 0
    assert data.high_watermark == 5
    assert {found.magic for found in iter_batches(data.records or b"")} == {
        0 if version < 2 else 1 if version < 4 else 2
    }
    expected = [(1, b"\x01" * 10), (2, b"\x02" * 10), (3, b"\x00" * 10), (4, b"\x01" * 10)]
    assert values(data, 1) == expected


@pytest.mark.parametrize("version", [0, 2, 4, 12])
@pytest.mark.parametrize("magic", [0, 1])
def test_old_formats_come_as_they_are_stored_and_never_raised(
    broker: Broker, client: WireClient, magic: int, version: int
) -> None:
    broker.create_topic("clicks")
    client.produce("clicks", 0, batch(3, magic=magic, codec=Compression.GZIP), version=2)
    [data] = fetch(client, request(1), version)
    assert [offset for offset, _ in values(data, 1)] == [1, 2]
    assert {found.magic for found in iter_batches(data.records or b"")} == {0 if version < 2 else magic}


def test_a_fetch_at_the_end_waits_and_gives_up_in_time(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    started = time.monotonic()
    [data] = fetch(client, request(wait_ms=200))
    assert 0.2 <= time.monotonic() - started < 15
    assert (data.error_code, values(data)) == (0, [])


def test_a_waiting_fetch_is_answered_when_records_come(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks", 2)
    client.send(request(wait_ms=20_000, partitions=(0, 1)), 12)
    with WireClient(broker) as producer:
        producer.produce("clicks", 1, batch())
    started = time.monotonic()
    first, second = client.receive(FetchResponse).responses[0].partitions
    assert (len(values(first)), len(values(second))) == (0, 3)
    assert time.monotonic() - started < 15


def test_a_fetch_waits_for_as_many_bytes_as_it_asks_for(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    client.send(request(wait_ms=20_000, min_bytes=2 * len(batch())), 12)
    with WireClient(broker) as producer:
        producer.produce("clicks", 0, batch())
        producer.produce("clicks", 0, batch())
    assert len(values(client.receive(FetchResponse).responses[0].partitions[0])) == 6


def test_a_fetch_does_not_wait_where_there_is_just_as_much_as_it_asks_for(
    broker: Broker, client: WireClient
) -> None:
    broker.create_topic("clicks")
    client.produce("clicks", 0, batch())
    # The client would give up long before the broker does.
    (data,) = fetch(client, request(wait_ms=600_000, min_bytes=len(batch())))
    assert len(values(data)) == 3


def test_a_fetch_that_waits_learns_that_its_topic_was_deleted(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    client.send(request(wait_ms=20_000), 12)
    with WireClient(broker) as admin:
        admin.ask(DeleteTopicsRequest(topic_names=["clicks"]), DeleteTopicsResponse, 3)
    [data] = client.receive(FetchResponse).responses[0].partitions
    assert data.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_errors_are_answered_at_once(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    started = time.monotonic()
    assert fetch(client, request(7, wait_ms=20_000))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    missing = fetch(client, request(wait_ms=20_000, topic="nope"))[0]
    assert missing.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    by_id = fetch(client, request(wait_ms=20_000, identity=b"x" * 16), 15)[0]
    assert by_id.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert fetch(client, request(epoch=3, wait_ms=20_000))[0].error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert time.monotonic() - started < 15


def test_limits_hold_for_each_partition_and_for_all_of_them_but_the_first_batch_comes_whole(
    broker: Broker, client: WireClient
) -> None:
    broker.create_topic("clicks", 3)
    size = len(batch(10, size=100))
    for partition in range(3):
        for _ in range(5):
            client.produce("clicks", partition, batch(10, size=100))

    def sizes(max_bytes: int = 1 << 25, partition_bytes: int = 1 << 20) -> list[int]:
        asked = request(partitions=(0, 1, 2), max_bytes=max_bytes, partition_bytes=partition_bytes)
        found = fetch(client, asked)
        return [len(data.records or b"") // size for data in found]

    assert sizes() == [5, 5, 5]
    assert sizes(partition_bytes=2 * size + 10) == [2, 2, 2]
    assert sizes(max_bytes=3 * size) == [3, 0, 0]
    assert sizes(partition_bytes=2 * size, max_bytes=3 * size) == [2, 1, 0]
    assert sizes(max_bytes=1) == [1, 0, 0]
    assert sizes(partition_bytes=1) == [1, 0, 0]


def test_before_version_3_a_large_batch_is_cut(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    client.produce("clicks", 0, batch(1, size=1000, magic=1), version=2)
    [data] = fetch(client, request(partition_bytes=100), 2)
    assert len(data.records or b"") == 100
    assert values(data) == []


def test_large_slices_from_several_segments_arrive_unchanged(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks", config={"segment.bytes": "3000000"})
    sent = [batch(900, size=1000, codec=Compression.NONE) for _ in range(6)]
    for one in sent:
        client.produce("clicks", 0, one)
    position = 0
    received = b""
    while position < 900 * 6:
        [data] = fetch(client, request(position, partition_bytes=1 << 25))
        assert data.records is not None
        received += bytes(data.records)
        position = list(iter_batches(data.records))[-1].next_offset
    for number, found in enumerate(iter_batches(received)):
        found.verify()
        assert (found.base_offset, bytes(found.buffer[61:])) == (900 * number, sent[number][61:])

"""A running broker that receives bytes which no client would send."""

import socket
import struct
import subprocess
import sys
import zlib
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from crc32c import crc32c

from pyklient.broker import Broker
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch
from pyklient.protocol.messages import (
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.records import Compression, NewRecord
from tests.broker.planting import plant
from tests.broker.wire_client import DEADLINE, WireClient
from tests.run.seed import dice
from tests.servers.fixtures import StartReference
from tests.servers.process import Growth
from tests.servers.topics import create_topic

_MIB = 1024 * 1024

pytestmark = pytest.mark.both_kernels


def batch(count: int = 1) -> bytes:
    return encode_batch([NewRecord(1000, b"k", b"v")] * count)


def frame(key: int, version: int, body: bytes = b"", client: bytes = b"\x00\x01x") -> bytes:
    content = struct.pack(">hhi", key, version, 1) + client + body
    return struct.pack(">i", len(content)) + content


def closes(broker: Broker, data: bytes, *, hang_up: bool = False) -> bool:
    """Return True if the broker closes the connection on which *data* was sent."""
    with socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE) as sock:
        try:
            sock.sendall(data)
            if hang_up:
                sock.shutdown(socket.SHUT_WR)
            while sock.recv(65536):
                pass
        except OSError as error:
            return not isinstance(error, TimeoutError)
        return True


HOSTILE = {
    "a frame of length -1": b"\xff\xff\xff\xff",
    "a frame of 2 GiB": b"\x7f\xff\xff\xff",
    "a frame of the smallest length": b"\x80\x00\x00\x00",
    "an empty frame": b"\x00\x00\x00\x00",
    "a frame of one byte": b"\x00\x00\x00\x01\x00",
    "a request in HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS hello": bytes.fromhex("16030100c8010000c40303") + bytes(200),
    "an unknown API key": frame(999, 0),
    "a negative API key": frame(-1, 0),
    "a known API key that is not served": frame(24, 0, bytes(30)),
    "an unknown version": frame(3, 99),
    "a negative version": frame(3, -1),
    "a client id of length -2": frame(3, 1, b"", b"\xff\xfe"),
    "a client id longer than the frame": frame(3, 1, b"", b"\x7f\xff"),
    "an array of 2**31-1 topics": frame(3, 1, b"\x7f\xff\xff\xff"),
    "an array of -2 topics": frame(3, 1, b"\xff\xff\xff\xfe"),
    "a compact array of 2**32-1 topics": frame(3, 12, b"\x00" + b"\xff\xff\xff\xff\x0f"),
    "a varint without an end": frame(3, 12, b"\x00" + b"\xff" * 20),
    "2**32-1 tagged fields": frame(3, 12, b"\x00\x01\x00\x00" + b"\xff\xff\xff\xff\x0f"),
    "a string that is not UTF-8": frame(3, 1, b"\x00\x00\x00\x01\x00\x02\xff\xfe"),
    "a request that is too long": frame(12, 0, bytes(100)),
    "arrays in arrays": frame(1, 4, bytes(17) + b"\x00\x00\xff\xff" * 50),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_end_their_own_connection_only(
    broker: Broker, client: WireClient, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker.create_topic("t")
    client.produce("t", 0, batch(5))
    assert closes(broker, HOSTILE[name])
    assert client.produce("t", 0, batch(5)).base_offset == 5
    assert len([record for record in caplog.records if record.name == "pyklient.broker"]) == 1
    assert "Traceback" not in caplog.text


def test_frames_cut_anywhere_and_garbage_of_any_kind_leave_the_broker_as_it_was(
    broker: Broker, client: WireClient
) -> None:
    random = dice("garbage")
    broker.create_topic("t")
    data = ProduceRequest.PartitionProduceData(index=0, records=batch(5))
    topics = [ProduceRequest.TopicProduceData(name="t", partition_data=[data])]
    body = b"".join(ProduceRequest(acks=1, timeout_ms=1, topic_data=topics).encode(9))
    whole = frame(0, 9, b"\x00" + body)
    for _ in range(60):
        closes(broker, whole[: random.randrange(1, len(whole))], hang_up=True)
        closes(broker, random.randbytes(random.randrange(1, 400)), hang_up=True)
        changed = bytearray(whole)
        for _ in range(random.randrange(1, 4)):
            changed[random.randrange(4, len(changed))] ^= 1 << random.randrange(8)
        closes(broker, bytes(changed), hang_up=True)
    end = client.offset_at("t", 0, -1)[0]
    assert end % 5 == 0
    assert client.produce("t", 0, batch(5)).base_offset == end


def test_an_announced_gigabyte_costs_no_memory_until_it_comes(start_reference: StartReference) -> None:
    broker = start_reference()
    create_topic(broker.bootstrap_servers, "t")
    growth = Growth(broker.process.pid)
    sockets = [socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE) for _ in range(50)]
    for sock in sockets:
        sock.sendall(struct.pack(">ihh", 100 << 20, 0, 9))
    with WireClient(broker) as client:
        assert client.produce("t", 0, batch()).error_code == 0
    assert growth.peak < 50 * _MIB
    for sock in sockets:
        sock.close()


def test_only_produce_requests_may_be_large(broker: Broker) -> None:
    metadata = struct.pack(">ihhi", 50 << 20, 3, 1, 1) + bytes(1 << 20)
    assert closes(broker, metadata)


def test_all_large_requests_together_are_bounded() -> None:
    with Broker(request_memory_bytes=8 << 20) as broker, ExitStack() as stack:
        broker.create_topic("t")
        sockets = [
            stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE))
            for _ in range(4)
        ]
        refused = 0
        for sock in sockets:
            try:
                sock.sendall(struct.pack(">ihh", 4 << 20, 0, 9) + bytes(3 << 20))
                sock.settimeout(0.3)
                refused += sock.recv(1) == b""
            except ConnectionError:
                refused += 1
            except TimeoutError:
                pass
        assert 1 <= refused < 4
        with WireClient(broker) as client:
            assert client.produce("t", 0, batch()).error_code == 0


def test_a_damaged_batch_is_named_and_the_rest_of_the_request_stored(
    broker: Broker, client: WireClient
) -> None:
    broker.create_topic("t", 2)
    good = batch(3)
    damaged = good[:-1] + b"?"
    data = [
        ProduceRequest.PartitionProduceData(index=0, records=damaged),
        ProduceRequest.PartitionProduceData(index=1, records=good),
    ]
    topics = [ProduceRequest.TopicProduceData(name="t", partition_data=data)]
    answer = client.ask(ProduceRequest(acks=-1, topic_data=topics), ProduceResponse, 12)
    codes = [one.error_code for one in answer.responses[0].partition_responses]
    assert codes == [ErrorCode.CORRUPT_MESSAGE, 0]


def bomb(magic: int) -> bytes:
    """Return a small compressed set whose decompressed size is 150 MiB."""
    if magic == 2:
        return encode_batch([NewRecord(1, None, bytes(150 << 20))], compression=Compression.GZIP)
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    piece = bytes(1 << 20)
    value = b"".join(packer.compress(piece) for _ in range(150)) + packer.flush()
    content = struct.pack(">bb", magic, 1) + (struct.pack(">q", 1) if magic else b"")
    content += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, len(content) + 4, zlib.crc32(content)) + content


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_compression_bomb_is_refused(broker: Broker, client: WireClient, magic: int) -> None:
    broker.create_topic("t")
    answer = client.produce("t", 0, bomb(magic), version=2)
    assert answer.error_code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE)
    assert client.offset_at("t", 0, -1)[0] == 0


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("announced", [1, 4, 2**31 - 1])
def test_a_batch_that_lies_about_its_records_is_refused_though_its_checksum_holds(
    broker: Broker, client: WireClient, codec: Compression, announced: int
) -> None:
    lie = bytearray(encode_batch([NewRecord(1000, b"k", b"v")] * 3, compression=codec))
    struct.pack_into(">i", lie, 23, announced - 1)
    struct.pack_into(">i", lie, 57, announced)
    struct.pack_into(">I", lie, 17, crc32c(bytes(lie[21:])))
    broker.create_topic("t")
    assert client.produce("t", 0, lie).error_code == ErrorCode.INVALID_RECORD
    assert client.offset_at("t", 0, -1)[0] == 0


def test_a_stored_bomb_hurts_neither_new_readers_nor_old_ones(tmp_path: Path) -> None:
    plant(tmp_path, "t", bomb(2))
    partition = FetchRequest.FetchTopic.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])])
    with Broker(data_dir=tmp_path) as broker, WireClient(broker) as client:
        new = client.ask(request, FetchResponse, 12).responses[0].partitions[0]
        assert (new.error_code, len(new.records or b"") > 0) == (0, True)
        old = client.ask(request, FetchResponse, 2).responses[0].partitions[0]
        assert old.error_code in (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.CORRUPT_MESSAGE)


def test_a_client_that_reads_nothing_holds_up_nobody(start_reference: StartReference) -> None:
    broker = start_reference()
    create_topic(broker.bootstrap_servers, "t")
    with WireClient(broker) as client:
        large = encode_batch([NewRecord(1, None, bytes(900_000))])
        for _ in range(30):
            client.produce("t", 0, large)
        partition = FetchRequest.FetchTopic.FetchPartition(partition=0, partition_max_bytes=1 << 25)
        request = FetchRequest(topics=[FetchRequest.FetchTopic(topic="t", partitions=[partition])])
        growth = Growth(broker.process.pid)
        lazy = [WireClient(broker) for _ in range(20)]
        for one in lazy:
            for _ in range(5):
                one.send(request, 12)
        assert client.produce("t", 0, batch()).error_code == 0
        assert growth.peak < 50 * _MIB
        for one in lazy:
            one.socket.close()


def test_a_silent_connection_is_closed_after_a_while() -> None:
    with Broker(connections_max_idle_ms=100) as broker:
        assert closes(broker, b"")
        assert closes(broker, b"\x00\x00\x01\x00half")


def test_no_more_connections_than_allowed_are_kept() -> None:
    with Broker(max_connections=2) as broker, WireClient(broker) as first, WireClient(broker) as second:
        broker.create_topic("t")
        assert first.produce("t", 0, batch()).error_code == 0
        assert second.produce("t", 0, batch()).error_code == 0
        assert closes(broker, b"")
        assert first.produce("t", 0, batch()).error_code == 0


def test_a_topic_for_every_name_of_a_stranger_is_not_made() -> None:
    with Broker(max_partitions=5) as broker, WireClient(broker) as client:
        names = [MetadataRequest.MetadataRequestTopic(name=f"t{at}") for at in range(50)]
        answer = client.ask(MetadataRequest(topics=names), MetadataResponse)
        assert [topic.error_code for topic in answer.topics].count(0) == 5


def test_more_connections_than_the_system_allows_are_survived() -> None:
    program = (
        "import resource; from pyklient.broker import Broker\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "with Broker() as broker:\n"
        "    broker.create_topic('t'); print(broker.port, flush=True); broker.wait()\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert child.stdout is not None
    try:
        port = int(child.stdout.readline())
        with ExitStack() as stack:
            for _ in range(60):
                stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=DEADLINE))
        with WireClient(SimpleNamespace(port=port)) as client:
            assert client.produce("t", 0, batch()).error_code == 0
    finally:
        child.kill()
        child.wait(10)
        child.stdout.close()

"""What strangers send to a broker's port: that connection ends, the others and the log do not notice."""

import gzip
import itertools
import random
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from crc32c import crc32c

from pyklient import Delivery, Producer, read
from pyklient.broker import Broker
from pyklient.kernel import encode_batch
from pyklient.protocol.framing import ClientFraming
from pyklient.protocol.messages import ProduceRequest, ProduceResponse
from pyklient.protocol.records import Compression, NewRecord
from tests.broker.planting import plant
from tests.servers.fixtures import NewName
from tests.servers.process import Growth
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic

pytestmark = pytest.mark.slow

_PATIENCE = 10
_MIB = 1024 * 1024
_ROOT = Path(__file__).parents[2]


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def header(api_key: int, version: int, correlation_id: int = 1) -> bytes:
    """A request header as versions 0 and 1 have it, with client id ``x``."""
    return struct.pack(">hhih", api_key, version, correlation_id, 1) + b"x"


HOSTILE = {
    "length of minus one": struct.pack(">i", -1),
    "lowest length": struct.pack(">i", -(2**31)),
    "length of two gigabytes": struct.pack(">i", 2**31 - 1) + bytes(1000),
    "no header": frame(b""),
    "half a header": frame(b"\x00\x03\x00"),
    "client id longer than the frame": frame(struct.pack(">hhih", 3, 1, 1, 30_000) + b"x"),
    "client id of negative length": frame(struct.pack(">hhih", 3, 1, 1, -7)),
    "api key that does not exist": frame(header(9_999, 0)),
    "negative api key": frame(header(-1, 0)),
    "version that does not exist": frame(header(3, 999) + bytes(50)),
    "negative version": frame(header(3, -5) + bytes(50)),
    "two billion topics": frame(header(3, 1) + struct.pack(">i", 2**31 - 1)),
    "minus two topics": frame(header(3, 1) + struct.pack(">i", -2)),
    "two billion nested partitions": frame(
        header(1, 4)
        + struct.pack(">iiiibi", -1, 100, 1, 1000, 0, 1)
        + b"\x00\x01t"
        + struct.pack(">i", 2**31 - 1)
    ),
    "topic longer than the frame": frame(header(3, 1) + struct.pack(">ih", 1, 32_000) + b"t"),
    "compact array of four billion": frame(
        struct.pack(">hhih", 3, 9, 1, 1) + b"x\x00" + b"\xff\xff\xff\xff\x0f" + bytes(20)
    ),
    "varint without an end": frame(struct.pack(">hhih", 3, 9, 1, 1) + b"x" + b"\xff" * 50),
    "two billion tagged fields": frame(struct.pack(">hhih", 3, 9, 1, 1) + b"x" + b"\xff\xff\xff\xff\x07"),
    "name that is not UTF-8": frame(header(3, 1) + struct.pack(">ih", 1, 2) + b"\xff\xfe"),
    "bytes after the request": frame(header(3, 1) + struct.pack(">i", -1) + bytes(1000)),
    "a web browser": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "a TLS client": bytes.fromhex("16030100f8010000f40303") + bytes(240),
}


@pytest.fixture
def stranger(reference_broker: ReferenceBroker) -> Iterator[socket.socket]:
    """A raw connection to the reference broker."""
    host, _, port = reference_broker.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=_PATIENCE) as connection:
        yield connection


@pytest.fixture
def customer(reference_broker: ReferenceBroker, new_name: NewName) -> Iterator[None]:
    """An honest client that produces all the time; at the end, all its records are there, in order."""
    bootstrap, topic = reference_broker.bootstrap_servers, new_name()
    create_topic(bootstrap, topic)
    sent: list[Delivery] = []
    stop = threading.Event()
    with Producer(bootstrap, linger_ms=0) as producer:

        def produce() -> None:
            for number in itertools.count():
                sent.append(producer.send(topic, b"%d" % number))
                if stop.wait(0.005):
                    return

        thread = threading.Thread(target=produce, daemon=True)
        thread.start()
        yield
        stop.set()
        thread.join(_PATIENCE)
    values = [message.value for message in read(bootstrap, topic, start=0)]
    assert values == [b"%d" % number for number in range(len(sent))]


def outcome(connection: socket.socket) -> bytes:
    """All that the broker answers until it closes the connection."""
    answer = b""
    try:
        while chunk := connection.recv(65536):
            answer += chunk
    except ConnectionResetError:
        pass
    return answer


@pytest.mark.usefixtures("customer")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_frame_ends_its_connection_and_nothing_else(
    reference_broker: ReferenceBroker, stranger: socket.socket, name: str
) -> None:
    growth = Growth(reference_broker.process.pid)
    started = time.monotonic()
    stranger.sendall(HOSTILE[name])
    assert outcome(stranger) == b""
    assert time.monotonic() - started < 30
    assert growth.peak < 64 * _MIB


@pytest.mark.usefixtures("customer")
def test_garbage_never_harms_the_broker(reference_broker: ReferenceBroker) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    host, _, port = reference_broker.bootstrap_servers.rpartition(":")
    growth = Growth(reference_broker.process.pid)
    started = time.monotonic()
    for _ in range(200):
        with socket.create_connection((host, int(port)), timeout=_PATIENCE) as connection:
            api_key, version = dice.randrange(70), dice.randrange(14)
            noise = dice.randbytes(dice.randrange(300))
            connection.sendall(frame(header(api_key, version) + noise))
            connection.shutdown(socket.SHUT_WR)
            outcome(connection)
    assert time.monotonic() - started < 60
    assert growth.peak < 64 * _MIB


@pytest.mark.usefixtures("customer")
def test_a_frame_that_stops_half_way_holds_nobody_up(
    reference_broker: ReferenceBroker, stranger: socket.socket
) -> None:
    growth = Growth(reference_broker.process.pid)
    stranger.sendall(struct.pack(">i", 50 * _MIB) + header(0, 3) + bytes(1000))
    with Producer(reference_broker.bootstrap_servers) as producer:
        topic = create_topic(reference_broker.bootstrap_servers, f"beside-a-stranger-{time.time_ns()}")
        assert producer.send(topic, b"x").result(timeout=30).offset == 0
    assert growth.peak < 64 * _MIB
    stranger.shutdown(socket.SHUT_WR)
    assert outcome(stranger) == b""


def error_of(stranger: socket.socket, topic: str, batch: bytes) -> int:
    """The error code for a Produce request of *batch* to partition 0 of *topic*."""
    partition = ProduceRequest.PartitionProduceData(index=0, records=batch)
    request = ProduceRequest(
        acks=-1,
        timeout_ms=5_000,
        topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
    )
    wire = ClientFraming("stranger")
    stranger.sendall(b"".join(wire.send(request, 7)))
    size = struct.unpack(">i", exactly(stranger, 4))[0]
    _, response = wire.receive(exactly(stranger, size))
    assert isinstance(response, ProduceResponse)
    return response.responses[0].partition_responses[0].error_code


def exactly(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = connection.recv(size - len(data))
        assert chunk, "the broker closed the connection"
        data += chunk
    return data


def a_batch(compression: Compression = Compression.NONE) -> bytearray:
    records = [NewRecord(1_000, b"key", b"value %d" % number, ()) for number in range(100)]
    return bytearray(encode_batch(records, compression=compression))


def with_payload(payload: bytes, count: int) -> bytes:
    """A gzip batch of *count* records whose compressed part is *payload*, with a checksum that holds."""
    batch = a_batch(Compression.GZIP)[:61] + payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    struct.pack_into(">i", batch, 23, count - 1)
    struct.pack_into(">i", batch, 57, count)
    struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
    return bytes(batch)


def damaged(batch: bytearray, position: int) -> bytes:
    batch[position] ^= 0x01
    return bytes(batch)


def gzip_of_zeros(size: int) -> bytes:
    """*size* zero bytes as gzip, made without ever holding them."""
    packer = zlib.compressobj(1, zlib.DEFLATED, 31)
    return b"".join(packer.compress(bytes(_MIB)) for _ in range(size // _MIB)) + packer.flush()


REFUSED = {
    "a record changed": damaged(a_batch(), 70),
    "the checksum changed": damaged(a_batch(), 17),
    "a compressed record changed": damaged(a_batch(Compression.GZIP), 80),
    "an unknown magic": damaged(a_batch(), 16),
    "half a batch": bytes(a_batch()[:100]),
    "a length of minus one": bytes(8) + struct.pack(">i", -1) + bytes(a_batch()[12:]),
    "a length of two gigabytes": bytes(8) + struct.pack(">i", 2**31 - 1) + bytes(a_batch()[12:]),
    "garbage": random.Random(7).randbytes(300),
}

SEALED: dict[str, Callable[[], bytes]] = {
    "garbage for gzip": lambda: with_payload(random.Random(8).randbytes(300), 1),
    "more records announced than there are": lambda: with_payload(gzip.compress(b"\x02\x00"), 2**31 - 1),
    "a gigabyte in a few megabytes": lambda: with_payload(gzip_of_zeros(1024 * _MIB), 1),
}


@pytest.mark.usefixtures("customer")
@pytest.mark.parametrize("name", REFUSED)
def test_a_bad_batch_is_refused_and_never_stored(
    reference_broker: ReferenceBroker, stranger: socket.socket, new_name: NewName, name: str
) -> None:
    bootstrap = reference_broker.bootstrap_servers
    topic = create_topic(bootstrap, new_name())
    growth = Growth(reference_broker.process.pid)
    started = time.monotonic()
    assert error_of(stranger, topic, REFUSED[name]) != 0
    assert time.monotonic() - started < 30
    assert growth.peak < 64 * _MIB
    assert error_of(stranger, topic, bytes(a_batch())) == 0
    assert [message.value for message in read(bootstrap, topic, start=0)] == [
        b"value %d" % n for n in range(100)
    ]


@pytest.mark.usefixtures("customer")
@pytest.mark.parametrize("name", SEALED)
def test_what_hides_behind_a_good_checksum_is_not_stored(
    reference_broker: ReferenceBroker, stranger: socket.socket, new_name: NewName, name: str
) -> None:
    bootstrap = reference_broker.bootstrap_servers
    topic = create_topic(bootstrap, new_name(), config={"max.message.bytes": 10 * _MIB})
    batch = SEALED[name]()
    growth = Growth(reference_broker.process.pid)
    started = time.monotonic()
    assert error_of(stranger, topic, batch) != 0
    assert list(read(bootstrap, topic, start=0)) == []
    assert time.monotonic() - started < 60
    assert growth.peak < 192 * _MIB, "one batch is opened at a time"


_READER = """
import os, sys
from pyklient import CorruptRecordError, MessageTooLargeError, read
from tests.servers.process import Growth
growth = Growth(os.getpid())
try:
    print("read", len(list(read(sys.argv[1], "sealed", start=0))))
except (CorruptRecordError, MessageTooLargeError) as error:
    print(growth.peak, error)
"""


@pytest.mark.parametrize("name", SEALED)
def test_what_hides_in_a_stored_batch_harms_no_reader(tmp_path: Path, name: str) -> None:
    """Whoever opens the batch is told, before it costs him his memory."""
    plant(tmp_path, "sealed", SEALED[name]())
    with Broker(data_dir=tmp_path) as broker:
        command = [sys.executable, "-c", _READER, broker.bootstrap_servers]
        ran = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=60, check=True)
    peak, _, said = ran.stdout.partition(" ")
    assert "sealed" in said
    assert int(peak) < 256 * _MIB

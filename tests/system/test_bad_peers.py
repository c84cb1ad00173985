"""Addresses where no Kafka is: each client says what is wrong there, soon, and what to do."""

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pyklient import (
    Admin,
    BrokerConnectionError,
    ConsumerConnector,
    KafkaError,
    KafkaTimeoutError,
    Producer,
    ProtocolError,
    SimpleConsumer,
    read,
)
from tests.servers.ports import HOST, free_port

pytestmark = pytest.mark.slow


def by_producer(address: str) -> None:
    with Producer(address, max_block_ms=2_000, request_timeout_ms=1_000) as producer:
        producer.send("topic", b"x").result(timeout=30)


def by_connector(address: str) -> None:
    with ConsumerConnector(
        address, group_id="g", default_api_timeout_ms=2_000, request_timeout_ms=1_500
    ) as connector:
        next(iter(connector.stream("topic")))


def by_admin(address: str) -> None:
    with Admin(address, default_api_timeout_ms=2_000, request_timeout_ms=1_500) as admin:
        admin.topics()


def by_simple_consumer(address: str) -> None:
    with SimpleConsumer(address, default_api_timeout_ms=2_000, request_timeout_ms=1_500) as consumer:
        consumer.fetch("topic", 0, 0, 1_000)


def by_read(address: str) -> None:
    list(read(address, "topic", start=0, default_api_timeout_ms=2_000, request_timeout_ms=1_500))


every_client = pytest.mark.parametrize(
    "client", [by_producer, by_connector, by_admin, by_simple_consumer, by_read]
)


def failure(client: Callable[[str], None], address: str) -> KafkaError:
    """The error that *client* raises in time."""
    started = time.monotonic()
    with pytest.raises(KafkaError) as caught:
        client(address)
    assert time.monotonic() - started < 30
    return caught.value


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A listening socket that nobody accepts from yet."""
    with socket.create_server((HOST, 0)) as server:
        yield server


def address_of(server: socket.socket) -> str:
    host, port = server.getsockname()[:2]
    return f"{host}:{port}"


def serve(listener: socket.socket, answer: bytes | None) -> None:
    """Answer whatever comes to *listener* with *answer*; with none, keep silent."""

    def talk(connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError):
            while connection.recv(65536):
                if answer is not None:
                    connection.sendall(answer)

    def accept() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=talk, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


@every_client
def test_a_refused_connection_names_the_address(client: Callable[[str], None]) -> None:
    address = f"{HOST}:{free_port()}"
    error = failure(client, address)
    assert isinstance(error, BrokerConnectionError | KafkaTimeoutError)
    assert address in str(error)
    assert "refused" in str(error)


@every_client
def test_a_host_that_does_not_exist_is_named(client: Callable[[str], None]) -> None:
    error = failure(client, "no-such-host.invalid:9092")
    assert isinstance(error, BrokerConnectionError | KafkaTimeoutError)
    assert "no-such-host.invalid" in str(error)


@every_client
def test_a_web_server_is_recognised(client: Callable[[str], None]) -> None:
    with http.server.ThreadingHTTPServer((HOST, 0), http.server.SimpleHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        address = f"{HOST}:{server.server_port}"
        try:
            error = failure(client, address)
        finally:
            server.shutdown()
            thread.join(30)
    assert isinstance(error, ProtocolError)
    assert address in str(error)
    assert "HTTP" in str(error)


@every_client
@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"\xff\xff\xff\xff" + bytes(20), id="negative-length"),
        pytest.param(b"\x7f\xff\xff\xff" + bytes(20), id="two-gigabytes"),
        pytest.param(b"\x00\x00\x00\x01x", id="one-byte"),
        pytest.param(b"\x00\x00\x00\x0a" + b"\xee" * 10, id="garbage"),
        pytest.param(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n", id="ssh"),
    ],
)
def test_an_answer_that_is_not_kafkas_is_a_protocol_error(
    client: Callable[[str], None], listener: socket.socket, answer: bytes
) -> None:
    serve(listener, answer)
    error = failure(client, address_of(listener))
    assert isinstance(error, ProtocolError)
    assert address_of(listener) in str(error)


@every_client
def test_a_server_that_never_answers_is_a_time_out(
    client: Callable[[str], None], listener: socket.socket
) -> None:
    serve(listener, None)
    error = failure(client, address_of(listener))
    assert isinstance(error, KafkaTimeoutError | BrokerConnectionError)
    assert address_of(listener) in str(error)

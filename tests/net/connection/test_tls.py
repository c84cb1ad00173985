"""TLS: both directions at the same time, and the error for each kind of wrong certificate or port."""

import contextlib
import os
import re
import socket
import ssl
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from pyklient.errors import (
    AuthenticationError,
    BrokerConnectionError,
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
)
from pyklient.net.connection.tls import TlsTransport
from pyklient.net.connection.transport import Deadline, TcpTransport
from pyklient.net.connection_pool import Purpose
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import MetadataRequest
from tests.net.scripted import RawServer, ScriptedBroker, config_for
from tests.servers.process import wait_until
from tests.servers.tls import Certificates


def server_context(own: Path, trusted: Path | None = None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    if trusted is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(trusted)
    return context


def ask_metadata(broker: ScriptedBroker | RawServer, **options: Any) -> None:
    """Ask for metadata once, with a client of *options*."""
    client = NetworkClient(config_for(broker, **options))
    try:
        client.connection(-1, Purpose.OTHER, 20).ask(MetadataRequest(topics=[]), 20)
    finally:
        client.close()


def time_left(seconds: float = 10.0) -> Deadline:
    return Deadline(seconds, lambda: KafkaTimeoutError("time is up"))


def refusal(broker: ScriptedBroker | RawServer, **options: Any) -> KafkaError:
    with pytest.raises(KafkaError) as caught:
        ask_metadata(broker, **options)
    assert broker.address in str(caught.value)
    return caught.value


def test_a_broker_with_a_trusted_certificate_is_talked_to(certificates: Certificates) -> None:
    with ScriptedBroker(tls=server_context(certificates.server)) as broker:
        ask_metadata(broker, security_protocol="SSL", ssl_truststore_location=str(certificates.authority))
        assert broker.count(MetadataRequest) == 1


def test_a_context_of_the_caller_is_used_as_it_is(certificates: Certificates) -> None:
    context = ssl.create_default_context(cafile=str(certificates.authority))
    with ScriptedBroker(tls=server_context(certificates.server)) as broker:
        ask_metadata(broker, security_protocol="SSL", ssl_context=context)


def test_a_certified_client_is_let_in_where_others_are_not(certificates: Certificates) -> None:
    trusting = {"security_protocol": "SSL", "ssl_truststore_location": str(certificates.authority)}
    with ScriptedBroker(tls=server_context(certificates.server, certificates.authority)) as broker:
        ask_metadata(broker, ssl_keystore_location=str(certificates.client), **trusting)
        for stranger in ({}, {"ssl_keystore_location": str(certificates.uninvited)}):
            error = refusal(broker, **stranger, **trusting)
            assert isinstance(error, AuthenticationError)
            assert "ssl_keystore_location" in str(error)


@pytest.mark.parametrize(
    ("shown", "advice"),
    [("expired", "has expired"), ("elsewhere", "connect by a name that is in the certificate")],
)
def test_a_certificate_that_does_not_fit_is_refused(
    certificates: Certificates, shown: str, advice: str
) -> None:
    with ScriptedBroker(tls=server_context(getattr(certificates, shown))) as broker:
        error = refusal(broker, security_protocol="SSL", ssl_truststore_location=str(certificates.authority))
        assert isinstance(error, AuthenticationError)
        assert advice in str(error)
        assert not broker.requests


def test_a_certificate_of_an_unknown_authority_is_refused(certificates: Certificates) -> None:
    with ScriptedBroker(tls=server_context(certificates.server)) as broker:
        error = refusal(broker, security_protocol="SSL", ssl_truststore_location=str(certificates.stranger))
        assert isinstance(error, AuthenticationError)
        assert "ssl_truststore_location" in str(error)


def test_the_host_is_not_checked_where_that_is_switched_off(certificates: Certificates) -> None:
    with ScriptedBroker(tls=server_context(certificates.elsewhere)) as broker:
        ask_metadata(
            broker,
            security_protocol="SSL",
            ssl_truststore_location=str(certificates.authority),
            ssl_endpoint_identification_algorithm="",
        )


def test_plaintext_to_a_tls_port_says_so(certificates: Certificates) -> None:
    with ScriptedBroker(tls=server_context(certificates.server)) as broker:
        error = refusal(broker)
        assert "TLS" in str(error)


def test_a_tls_alert_in_answer_to_plaintext_says_so() -> None:
    with RawServer(lambda sock: sock.sendall(b"\x15\x03\x03\x00\x02\x02\x50")) as server:
        error = refusal(server)
        assert isinstance(error, ProtocolError)
        assert "TLS" in str(error)


def test_tls_to_a_plaintext_port_says_so(certificates: Certificates) -> None:
    def refuse(sock: socket.socket) -> None:
        assert int.from_bytes(sock.recv(4), "big") > 300_000_000  # what a broker takes for a length
        sock.recv(65536)

    trusting = {"security_protocol": "SSL", "ssl_truststore_location": str(certificates.authority)}
    with RawServer(refuse) as server:
        error = refusal(server, **trusting)
        assert isinstance(error, BrokerConnectionError)
        assert "closed the connection; check that this port uses TLS" in str(error)

    def reset(sock: socket.socket) -> None:
        sock.recv(4)  # the rest is not read, so close() resets the connection

    with RawServer(reset) as server:
        error = refusal(server, **trusting)
        assert isinstance(error, BrokerConnectionError)
        assert re.search("the TLS handshake with .* failed: .*; check that this port uses TLS", str(error))
    with RawServer(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        error = refusal(server, **trusting)
        assert isinstance(error, ProtocolError)
        assert "does not use TLS on this port" in str(error)


@pytest.mark.parametrize("option", ["ssl_truststore_location", "ssl_keystore_location"])
def test_files_that_are_not_what_they_should_be_are_named(option: str, tmp_path: Path) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    for path, complaint in ((tmp_path / "missing.pem", "cannot be read"), (store, "must be a PEM file")):
        options = {"security_protocol": "SSL", option: str(path)}
        with (
            RawServer(lambda sock: None) as server,
            pytest.raises(ConfigurationError, match=complaint) as caught,
        ):
            NetworkClient(config_for(server, **options))
        assert option in str(caught.value)


def test_a_refusal_is_read_though_the_broker_has_hung_up_already(certificates: Certificates) -> None:
    hung_up = threading.Event()
    context = server_context(certificates.server, certificates.authority)

    def refuse(sock: socket.socket) -> None:
        with contextlib.suppress(ssl.SSLError):
            context.wrap_socket(sock, server_side=True)
        sock.close()
        hung_up.set()

    def keep_sending(transport: TlsTransport) -> None:
        for _ in range(100):
            transport.send([bytes(1000)], time_left())
            time.sleep(0.01)

    trusting = ssl.create_default_context(cafile=str(certificates.authority))
    with RawServer(refuse) as server, socket.create_connection((server.host, server.port)) as sock:
        transport = TlsTransport(TcpTransport(sock, "peer"), "peer", trusting, "127.0.0.1")
        transport.handshake(time_left())
        assert hung_up.wait(20)
        with pytest.raises(AuthenticationError, match="ssl_keystore_location"):
            keep_sending(transport)


def test_large_requests_and_answers_cross_each_other(certificates: Certificates) -> None:
    """Each side sends more than all buffers hold before it reads, so no lock may be held while waiting."""
    size = 6_000_000
    sent = os.urandom(size)
    head = b"received before"
    got: list[bytes] = []
    echoed = threading.Event()
    context = server_context(certificates.server)

    def echo(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as tls:
            remaining = size
            while remaining:
                data = tls.recv(65536)
                tls.sendall(data)
                remaining -= len(data)
            echoed.wait(20)

    client_context = ssl.create_default_context(cafile=str(certificates.authority))
    with RawServer(echo) as server, socket.create_connection((server.host, server.port)) as sock:
        transport = TlsTransport(TcpTransport(sock, "peer"), "peer", client_context, "127.0.0.1")
        transport.handshake(time_left())
        whole = len(head) + size
        reader = threading.Thread(
            target=lambda: got.append(bytes(transport.receive(whole, time_left(), head)))
        )
        reader.start()
        view = memoryview(sent)
        transport.send([view[:10], view[10:17], view[17:70_000], view[70_000:]], time_left())
        reader.join(30)
        started = time.monotonic()
        with pytest.raises(KafkaTimeoutError):
            transport.receive(1, time_left(0.05))
        assert time.monotonic() - started < 10
        echoed.set()
        with pytest.raises(BrokerConnectionError, match="peer closed the connection"):
            transport.receive(1, time_left())
    assert got == [head + sent]


def test_what_the_system_does_not_take_at_once_is_encrypted_once(certificates: Certificates) -> None:
    parts = [bytes([number]) * 40_000 for number in range(200)]
    go_on = threading.Event()
    got: list[bytes] = []
    context = server_context(certificates.server)

    def read_when_told(sock: socket.socket) -> None:
        with context.wrap_socket(sock, server_side=True) as tls, tls.makefile("rb") as stream:
            go_on.wait(60)
            got.append(stream.read(8_000_000))

    trusting = ssl.create_default_context(cafile=str(certificates.authority))
    with (
        RawServer(read_when_told) as server,
        socket.create_connection((server.host, server.port)) as sock,
    ):
        transport = TlsTransport(TcpTransport(sock, "peer"), "peer", trusting, "127.0.0.1")
        transport.handshake(time_left())
        assert transport.send_at_once(parts) == parts  # too much to try
        waiting = list(parts)
        while not (left := transport.send_at_once(waiting[:2])):
            waiting = waiting[2:]
        assert transport.send_at_once(waiting[2:4]) == waiting[2:4]  # nothing overtakes what is left
        go_on.set()
        transport.send(left, time_left())
        transport.send(waiting[2:], time_left())
        wait_until(lambda: bool(got), 60, "all bytes")
    assert got == [b"".join(parts)]

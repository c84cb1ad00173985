"""The versions of brokers that do not name them, from what they answer."""

import socket
from collections.abc import Callable
from typing import Any

import pytest

from pyklient.errors import BrokerConnectionError
from pyklient.metrics.traffic import Traffic
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import NoVersionsError, open_connection
from pyklient.net.connection.old_brokers import OldBrokers
from pyklient.net.connection.transport import Endpoint
from pyklient.net.connection.version_probe import KAFKA_0_8_2, KAFKA_0_9
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    ListGroupsRequest,
    ListGroupsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    OffsetCommitRequest,
    ProduceRequest,
)
from tests.net.scripted import SILENCE, RawServer, ScriptedBroker, config_for

_EMPTY_ARRAY = b"\0\0\0\0"
_NO_ERROR = b"\0\0"
_ANSWERS = {ListOffsetsRequest.api_key: _EMPTY_ARRAY, ListGroupsRequest.api_key: _NO_ERROR + _EMPTY_ARRAY}


def requests_of(sock: socket.socket) -> Callable[[], tuple[int, bytes] | None]:
    """Return a function that returns the API key and the correlation id of the next request, None at the
    end."""
    stream = sock.makefile("rb")

    def next_request() -> tuple[int, bytes] | None:
        head = stream.read(4)
        if len(head) < 4:
            return None
        frame = stream.read(int.from_bytes(head, "big"))
        return int.from_bytes(frame[:2], "big"), frame[4:8]

    return next_request


def answer(sock: socket.socket, key: int, correlation_id: bytes) -> None:
    body = correlation_id + _ANSWERS[key]
    sock.sendall(len(body).to_bytes(4, "big") + body)


def kafka_0_8(sock: socket.socket) -> None:
    """Close the connection at a request that 0.8 does not know, as the real one does."""
    next_request = requests_of(sock)
    while (request := next_request()) is not None and request[0] == ListOffsetsRequest.api_key:
        answer(sock, *request)


def kafka_0_9(sock: socket.socket) -> None:
    """Ignore ApiVersions and answer the next request, as the real one does."""
    next_request = requests_of(sock)
    while (request := next_request()) is not None:
        if request[0] != ApiVersionsRequest.api_key:
            answer(sock, *request)


def opened(server: RawServer, old_brokers: OldBrokers, timeout: float = 3.0) -> Connection:
    endpoint = Endpoint(server.node_id, server.host, server.port)
    return open_connection(config_for(server), None, old_brokers, endpoint, timeout, lambda: None, Traffic(1))


def use(connection: Connection) -> None:
    assert isinstance(connection.ask(ListOffsetsRequest()), ListOffsetsResponse)
    connection.close()


def test_a_broker_that_closes_the_connection_at_api_versions_and_list_groups_is_0_8() -> None:
    with RawServer(kafka_0_8) as server:
        connection = opened(server, OldBrokers())
        assert connection.version_of(ProduceRequest) == KAFKA_0_8_2[ProduceRequest.api_key][1] == 0
        assert connection.version_of(OffsetCommitRequest) == 1
        assert ListGroupsRequest.api_key not in KAFKA_0_8_2
        connection.close()


def test_a_broker_that_answers_list_groups_and_not_api_versions_is_0_9() -> None:
    with RawServer(kafka_0_9) as server:
        connection = opened(server, OldBrokers())
        assert connection.version_of(ProduceRequest) == KAFKA_0_9[ProduceRequest.api_key][1] == 1
        assert isinstance(connection.ask(ListGroupsRequest()), ListGroupsResponse)
        connection.close()


@pytest.mark.parametrize("serve", [kafka_0_8, kafka_0_9])
def test_an_old_broker_is_probed_once(serve: Callable[[socket.socket], None]) -> None:
    with RawServer(serve) as server:
        old_brokers = OldBrokers()
        use(opened(server, old_brokers))
        probed = server.accepted
        use(opened(server, old_brokers))
        assert server.accepted == probed + 1


def test_an_old_broker_is_probed_again_after_a_while() -> None:
    now = [0.0]
    old_brokers, endpoint = OldBrokers(lambda: now[0]), Endpoint(1, "host", 9092)
    old_brokers.remember(endpoint, KAFKA_0_9)
    now[0] = 599
    assert old_brokers.versions_of(endpoint) is KAFKA_0_9
    now[0] = 600
    assert old_brokers.versions_of(endpoint) is None


def test_an_old_broker_that_cannot_be_reached_is_probed_again() -> None:
    old_brokers = OldBrokers()
    with RawServer(kafka_0_8) as server:
        opened(server, old_brokers).close()
        endpoint = Endpoint(server.node_id, server.host, server.port)
    assert old_brokers.versions_of(endpoint) is KAFKA_0_8_2
    with pytest.raises(BrokerConnectionError):
        opened(server, old_brokers)
    assert old_brokers.versions_of(endpoint) is None


def test_a_new_broker_that_answers_late_is_not_taken_for_an_old_one() -> None:
    with ScriptedBroker() as broker:
        unanswered = [True]

        def late(request: Any) -> Any:
            return SILENCE if unanswered and unanswered.pop() else broker._api_versions(request)

        broker.on(ApiVersionsRequest, late)
        broker.on(ListGroupsRequest, lambda _request: ListGroupsResponse())
        old_brokers = OldBrokers()
        connection = opened(broker, old_brokers)
        assert connection.version_of(MetadataRequest) == MetadataRequest.versions[1]
        assert old_brokers.versions_of(connection.endpoint) is None
        connection.close()


def test_a_broker_that_was_restarted_between_two_probes_is_not_taken_for_an_old_one() -> None:
    closing = [True, True]

    def serve(sock: socket.socket) -> None:
        if closing:
            closing.pop()
            sock.recv(1000)
        else:
            kafka_0_9(sock)

    with RawServer(serve) as server, pytest.raises(NoVersionsError) as caught:
        opened(server, OldBrokers())
    assert caught.value.retriable

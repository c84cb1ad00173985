"""The fault proxy itself: what each fault lets through, and that it changes nothing else."""

import contextlib
import gc
import socket
import struct
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from pyklient import Admin, Producer, read
from pyklient.protocol.messages import (
    DescribeClusterResponse,
    FindCoordinatorResponse,
    HeartbeatRequest,
    MetadataResponse,
    ProduceRequest,
    ResponseHeader,
)
from pyklient.protocol.primitives import Reader
from pyklient.protocol.schema import ApiMessage
from tests.servers.fixtures import NewName
from tests.servers.ports import HOST
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic
from tools.faults.plan import FAULTS, Action, Fault, FaultPlan, Place, seeded_plan
from tools.faults.proxy import FaultProxy, moved

_PATIENCE = 30.0
_NO_FAULTS = FaultPlan({})
_BODY = bytes(range(100))


def heartbeat(correlation_id: int) -> bytes:
    """A frame that says it is a Heartbeat; the proxy looks no further."""
    head = struct.pack(">hhi", HeartbeatRequest.api_key, 4, correlation_id)
    return struct.pack(">i", len(head) + len(_BODY)) + head + _BODY


def answer(correlation_id: int) -> bytes:
    return struct.pack(">ii", 4 + len(_BODY), correlation_id) + _BODY


class Ends(NamedTuple):
    """The client's end of a connection through the proxy, and the broker's."""

    proxy: FaultProxy
    client: socket.socket
    broker: socket.socket


@contextlib.contextmanager
def connected(plan: FaultPlan, limit: int | None = None) -> Iterator[Ends]:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((HOST, 0)))
        host, port = listener.getsockname()
        proxy = stack.enter_context(FaultProxy(f"{host}:{port}", plan, limit=limit))
        client = stack.enter_context(socket.create_connection(proxy.addresses[host, port], timeout=_PATIENCE))
        broker = stack.enter_context(listener.accept()[0])
        broker.settimeout(_PATIENCE)
        yield Ends(proxy, client, broker)


def exactly(sock: socket.socket, count: int) -> bytes:
    """The next *count* bytes; fewer where the connection ends before."""
    found = bytearray()
    while len(found) < count and (part := sock.recv(count - len(found))):
        found += part
    return bytes(found)


def to_the_end(sock: socket.socket) -> bytes:
    """All that comes until the connection ends, however it does."""
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(1 << 16):
            found += part
    return found


def test_requests_pass_while_none_has_been_answered() -> None:
    with connected(_NO_FAULTS) as ends:
        requests = b"".join(map(heartbeat, range(5)))
        ends.client.sendall(requests)
        assert exactly(ends.broker, len(requests)) == requests
        answers = b"".join(map(answer, range(5)))
        ends.broker.sendall(answers)
        assert exactly(ends.client, len(answers)) == answers


def test_what_is_no_request_of_kafkas_passes_too() -> None:
    hello = b"HEAD / HTTP/1.0\r\n\r\n"  # the client wants to know whether this is a web server
    with connected(_NO_FAULTS) as ends:
        ends.client.sendall(hello)
        assert exactly(ends.broker, len(hello)) == hello


def test_the_broker_may_answer_a_client_that_has_gone_after_a_garbage_collection() -> None:
    with connected(_NO_FAULTS) as ends:
        ends.client.sendall(heartbeat(0))
        assert exactly(ends.broker, len(heartbeat(0))) == heartbeat(0)
        ends.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        ends.client.close()
        assert to_the_end(ends.broker) == b""
        gc.collect()
        ends.broker.sendall(answer(0))


def test_a_large_frame_passes_in_both_directions_at_once() -> None:
    body = bytes(20_000_000)
    request = struct.pack(">ihhi", 8 + len(body), ProduceRequest.api_key, 9, 0) + body
    with connected(_NO_FAULTS) as ends:
        ends.client.sendall(heartbeat(-1))
        exactly(ends.broker, len(heartbeat(-1)))
        sending = threading.Thread(target=ends.client.sendall, args=(request,))
        answering = threading.Thread(
            target=ends.broker.sendall, args=(struct.pack(">ii", 4 + len(body), -1) + body,)
        )
        sending.start()
        answering.start()
        assert exactly(ends.client, 8 + len(body))[8:] == body
        assert exactly(ends.broker, len(request)) == request
        sending.join()
        answering.join()


def test_the_answer_after_one_that_never_comes_finds_its_request() -> None:
    with connected(FaultPlan({HeartbeatRequest: [(2, Fault(Place.ANSWER, Action.DROP))]})) as ends:
        for number in range(3):
            ends.client.sendall(heartbeat(number))
            exactly(ends.broker, len(heartbeat(number)))
        ends.broker.sendall(answer(2))
        assert exactly(ends.client, len(answer(2))) == answer(2)
        assert ends.proxy.happened == []


_HALF_REQUEST, _HALF_ANSWER = len(heartbeat(1)) - 50, len(answer(1)) - 50
_ENDED = {
    Place.REQUEST: (0, 0),
    Place.INSIDE_REQUEST: (_HALF_REQUEST, 0),
    Place.ANSWER: (len(heartbeat(1)), 0),
    Place.INSIDE_ANSWER: (len(heartbeat(1)), _HALF_ANSWER),
}
"""The number of bytes of a request that reach the broker, and of its answer that reach the client."""


@pytest.mark.parametrize("action", [Action.CUT, Action.RESET])
@pytest.mark.parametrize("place", Place)
def test_a_cut_connection_has_passed_what_came_before_the_cut(place: Place, action: Action) -> None:
    with connected(FaultPlan({HeartbeatRequest: [(2, Fault(place, action))]})) as ends:
        ends.client.sendall(heartbeat(0))
        assert exactly(ends.broker, len(heartbeat(0))) == heartbeat(0)
        ends.broker.sendall(answer(0))
        assert exactly(ends.client, len(answer(0))) == answer(0)
        ends.client.sendall(heartbeat(1))
        at_broker, at_client = _ENDED[place]
        assert exactly(ends.broker, at_broker) == heartbeat(1)[:at_broker]
        if place in (Place.ANSWER, Place.INSIDE_ANSWER):
            assert ends.proxy.happened == []
            ends.broker.sendall(answer(1))
        assert to_the_end(ends.broker) == b""
        came = to_the_end(ends.client)
        assert answer(1)[:at_client].startswith(came)
        assert len(came) == at_client or action is Action.RESET  # which may overtake what was sent before it
        assert [each.fault for each in ends.proxy.happened] == [Fault(place, action)]


@pytest.mark.parametrize("place", Place)
def test_held_bytes_arrive_after_their_time(place: Place) -> None:
    fault = Fault(place, Action.HOLD, 0.2)
    with connected(FaultPlan({HeartbeatRequest: [(1, fault)]})) as ends:
        ends.client.sendall(heartbeat(0))
        assert exactly(ends.broker, len(heartbeat(0))) == heartbeat(0)
        ends.broker.sendall(answer(0))
        assert exactly(ends.client, len(answer(0))) == answer(0)
        assert [each.fault for each in ends.proxy.happened] == [fault]


def test_what_was_held_reaches_the_broker_after_its_client_has_gone() -> None:
    with connected(FaultPlan({HeartbeatRequest: [(1, Fault(Place.REQUEST, Action.HOLD, 0.2))]})) as ends:
        ends.client.sendall(heartbeat(0))
        ends.client.close()
        assert to_the_end(ends.broker) == heartbeat(0)


def test_a_dropped_answer_is_missing_and_the_next_one_comes() -> None:
    with connected(FaultPlan({HeartbeatRequest: [(1, Fault(Place.ANSWER, Action.DROP))]})) as ends:
        ends.client.sendall(heartbeat(0) + heartbeat(1))
        exactly(ends.broker, 2 * len(heartbeat(0)))
        ends.broker.sendall(answer(0) + answer(1))
        assert exactly(ends.client, len(answer(1))) == answer(1)


def test_a_silent_connection_passes_requests_and_no_answer() -> None:
    with connected(FaultPlan({HeartbeatRequest: [(1, Fault(Place.ANSWER, Action.SILENCE))]})) as ends:
        for number in range(2):
            ends.client.sendall(heartbeat(number))
            assert exactly(ends.broker, len(heartbeat(number))) == heartbeat(number)
            ends.broker.sendall(answer(number))
        ends.broker.close()
        assert to_the_end(ends.client) == b""


def test_a_fault_whose_moment_never_came_has_not_happened() -> None:
    with connected(FaultPlan({HeartbeatRequest: [(1, Fault(Place.ANSWER, Action.CUT))]})) as ends:
        ends.client.sendall(heartbeat(0))
        exactly(ends.broker, len(heartbeat(0)))
        ends.broker.close()
        assert to_the_end(ends.client) == b""
    assert ends.proxy.happened == []
    assert ends.proxy.missed == [Fault(Place.ANSWER, Action.CUT)]


def test_no_fault_strikes_beyond_the_limit() -> None:
    faults = [(1, Fault(Place.REQUEST, Action.HOLD))] * 3
    with connected(FaultPlan({HeartbeatRequest: faults}), limit=2) as ends:
        for number in range(3):
            ends.client.sendall(heartbeat(number))
        exactly(ends.broker, 3 * len(heartbeat(0)))
        assert len(ends.proxy.happened) == 2


def test_a_failure_tells_what_has_happened() -> None:
    plan = FaultPlan({HeartbeatRequest: [(1, Fault(Place.REQUEST, Action.CUT))]})

    def fail_behind_a_fault() -> None:
        with connected(plan) as ends:
            ends.client.sendall(heartbeat(0))
            assert to_the_end(ends.client) == b""
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        fail_behind_a_fault()
    assert "Heartbeat" in caught.value.__notes__[0]
    assert "close the connection before the request" in caught.value.__notes__[0]


def test_a_seed_gives_the_same_plan_whatever_else_is_planned() -> None:
    def faults(seed: int, *others: type[ApiMessage]) -> list[Fault | None]:
        plan = seeded_plan(seed, dict.fromkeys([HeartbeatRequest, *others], (1, 5)), longest=2)
        return [plan.take(HeartbeatRequest.api_key) for _ in range(500)]

    assert faults(1) == faults(1, ProduceRequest)
    assert faults(1) != faults(2)
    drawn = [fault for fault in faults(1) if fault is not None]
    assert {(fault.place, fault.action) for fault in drawn} == {(each.place, each.action) for each in FAULTS}
    held = [fault.seconds for fault in drawn if fault.action is Action.HOLD]
    assert 1 < max(held) <= 2


_ADDRESSES = {("b1", 1): ("p", 11), ("b2", 2): ("p", 22)}


@pytest.mark.parametrize("kind", [MetadataResponse, FindCoordinatorResponse, DescribeClusterResponse])
def test_answers_name_the_proxys_listeners_in_every_version(kind: type[ApiMessage]) -> None:
    first, last = kind.versions
    for version in range(first, last + 1):
        flexible = kind.is_flexible(version)
        header = b"".join(ResponseHeader().encode(1 if flexible else 0))[4:]
        body = moved(kind.api_key, version, header + b"".join(_response(kind, version, 1, 2)), _ADDRESSES)
        reader = Reader(body)
        reader.pos = len(header)
        assert kind.read(reader, version) == kind.decode(b"".join(_response(kind, version, 11, 22)), version)


def _response(kind: type[ApiMessage], version: int, *ports: int) -> list[bytes]:
    names = {1: "b1", 2: "b2", 11: "p", 22: "p"}
    if kind is FindCoordinatorResponse and version < 4:
        response: ApiMessage = FindCoordinatorResponse(host=names[ports[0]], port=ports[0])
    elif kind is FindCoordinatorResponse:
        found = [FindCoordinatorResponse.Coordinator(host=names[port], port=port) for port in ports]
        nobody = FindCoordinatorResponse.Coordinator(host="", port=-1, error_code=15)
        response = FindCoordinatorResponse(coordinators=[*found, nobody])
    elif kind is MetadataResponse:
        brokers = [MetadataResponse.MetadataResponseBroker(host=names[port], port=port) for port in ports]
        response = MetadataResponse(brokers=brokers)
    else:
        cluster = [
            DescribeClusterResponse.DescribeClusterBroker(host=names[port], port=port) for port in ports
        ]
        response = DescribeClusterResponse(brokers=cluster)
    return [bytes(part) for part in response.encode(version)]


def test_a_broker_that_the_proxy_does_not_stand_in_front_of_is_an_error() -> None:
    unknown = b"".join(_response(MetadataResponse, 1, 1))
    with pytest.raises(KeyError):
        moved(MetadataResponse.api_key, 1, unknown, {("b2", 2): ("p", 22)})


def test_clients_stay_behind_the_proxy(reference_broker: ReferenceBroker, new_name: NewName) -> None:
    topic = create_topic(reference_broker.bootstrap_servers, new_name())
    with FaultProxy(reference_broker.bootstrap_servers, _NO_FAULTS) as proxy:
        with Producer(proxy.bootstrap_servers) as producer:
            for number in range(100):
                producer.send(topic, b"%d" % number)
        values = [message.value for message in read(proxy.bootstrap_servers, topic, start=0)]
        with Admin(proxy.bootstrap_servers) as admin:
            brokers = [(node.host, node.port) for node in admin.cluster().brokers]
    assert values == [b"%d" % number for number in range(100)]
    assert brokers == list(proxy.addresses.values())

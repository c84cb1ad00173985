"""Frames and correlation ids: the client's side and the broker's side with each other."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import KafkaError, ProtocolError, UnsupportedVersionError
from pyklient.protocol.framing import (
    ClientFraming,
    MissingAnswerError,
    ReceivedRequest,
    ServerFraming,
    frame_length,
)
from pyklient.protocol.messages import (
    REQUESTS,
    RESPONSES,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.primitives import Buffer

_ALL_VERSIONS: list[tuple[int, int]] = [
    (key, version) for key, cls in REQUESTS.items() for version in range(cls.versions[0], cls.versions[1] + 1)
]


def _frame(parts: list[Buffer]) -> bytes:
    whole = b"".join(parts)
    assert frame_length(whole, 1 << 20) == len(whole) - 4
    return whole[4:]


@pytest.mark.parametrize(("key", "version"), _ALL_VERSIONS)
def test_each_request_reaches_the_server_and_each_response_the_client(key: int, version: int) -> None:
    client, server = ClientFraming("me"), ServerFraming()
    received = server.receive(_frame(client.send(REQUESTS[key](), version)))
    assert received == ReceivedRequest(key, version, 0, "me", REQUESTS[key]())
    assert not received.unsupported
    response = RESPONSES[key]()
    assert client.receive(_frame(server.send(received, response))) == (0, response)
    assert client.in_flight == 0


def test_known_bytes_of_a_classic_and_of_a_flexible_frame() -> None:
    client = ClientFraming("me")
    classic = b"".join(client.send(MetadataRequest(topics=[]), 1))
    assert classic.hex() == "00000010000300010000000000026d6500000000"
    flexible = b"".join(client.send(HeartbeatRequest(group_id="g"), 4))
    assert flexible.hex() == "00000016000c00040000000100026d6500026700000000010000"


def test_a_client_may_have_no_name() -> None:
    received = ServerFraming().receive(_frame(ClientFraming(None).send(HeartbeatRequest(), 4)))
    assert received.client_id is None


def test_responses_come_in_the_order_of_their_requests() -> None:
    client, server = ClientFraming("me"), ServerFraming()
    first = server.receive(_frame(client.send(HeartbeatRequest(), 0)))
    second = server.receive(_frame(client.send(MetadataRequest(), 4)))
    assert (client.last_correlation_id, client.in_flight) == (1, 2)
    with pytest.raises(MissingAnswerError, match="correlation id 1, but 0 is the next one due") as caught:
        client.receive(_frame(server.send(second, MetadataResponse())))
    assert caught.value.retriable
    assert client.receive(_frame(server.send(first, HeartbeatResponse(error_code=27))))[0] == 0
    assert client.receive(_frame(server.send(second, MetadataResponse())))[0] == 1


def test_a_response_that_comes_twice_is_refused() -> None:
    client, server = ClientFraming("me"), ServerFraming()
    first = server.receive(_frame(client.send(HeartbeatRequest(), 0)))
    client.send(HeartbeatRequest(), 0)
    client.receive(_frame(server.send(first, HeartbeatResponse())))
    with pytest.raises(ProtocolError, match="correlation id 0, but 1 is the next one due"):
        client.receive(_frame(server.send(first, HeartbeatResponse())))


def test_a_response_that_nobody_asked_for_is_refused() -> None:
    client = ClientFraming("me")
    client.send(HeartbeatRequest(), 0)
    with pytest.raises(ProtocolError, match="correlation id 7, but 0 is the next one due"):
        client.receive((7).to_bytes(4, "big") + bytes(2))
    with pytest.raises(ProtocolError, match="no request is waiting"):
        ClientFraming("me").receive(bytes(6))


def test_a_produce_request_without_acknowledgement_expects_no_reply() -> None:
    client, server = ClientFraming("me"), ServerFraming()
    unanswered = server.receive(_frame(client.send(ProduceRequest(acks=0), 9, expects_reply=False)))
    answered = server.receive(_frame(client.send(ProduceRequest(acks=1), 9)))
    assert (unanswered.expects_reply, answered.expects_reply) == (False, True)
    assert client.in_flight == 1
    assert client.receive(_frame(server.send(answered, ProduceResponse())))[0] == 1


def test_correlation_ids_begin_again_after_the_largest() -> None:
    client, server = ClientFraming("me"), ServerFraming()
    client.last_correlation_id = 0x7FFFFFFE
    largest = server.receive(_frame(client.send(HeartbeatRequest(), 4)))
    again = server.receive(_frame(client.send(HeartbeatRequest(), 4)))
    assert (largest.correlation_id, again.correlation_id) == (0x7FFFFFFF, 0)
    assert client.receive(_frame(server.send(largest, HeartbeatResponse())))[0] == 0x7FFFFFFF
    assert client.receive(_frame(server.send(again, HeartbeatResponse())))[0] == 0


def test_a_request_that_cannot_be_encoded_leaves_no_trace() -> None:
    client = ClientFraming("me")
    with pytest.raises(UnsupportedVersionError):
        client.send(HeartbeatRequest(group_instance_id="i"), 0)
    assert (client.last_correlation_id, client.in_flight) == (-1, 0)


def test_the_header_of_an_api_versions_response_never_has_tagged_fields() -> None:
    client, server = ClientFraming("me"), ServerFraming()
    received = server.receive(_frame(client.send(ApiVersionsRequest(), 3)))
    frame = _frame(server.send(received, ApiVersionsResponse(error_code=0)))
    assert frame.hex() == "000000000000010000000000"


def test_api_versions_of_an_unknown_version_is_answered_in_version_0() -> None:
    client, server = ClientFraming("me"), ServerFraming()
    asked = bytearray(_frame(client.send(ApiVersionsRequest(client_software_name="pyklient"), 4)))
    asked[2:4] = (99).to_bytes(2, "big")
    received = server.receive(asked)
    assert received.unsupported
    assert (received.api_key, received.version, received.correlation_id) == (18, 99, 0)
    known = ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=4)
    frame = _frame(server.send(received, ApiVersionsResponse(error_code=35, api_keys=[known])))
    assert frame.hex() == "00000000002300000001001200000004"
    _, response = client.receive(frame)
    assert isinstance(response, ApiVersionsResponse)
    assert (response.error_code, response.api_keys) == (35, [known])


def test_an_unknown_version_of_another_request_is_refused() -> None:
    frame = bytearray(_frame(ClientFraming("me").send(HeartbeatRequest(), 4)))
    frame[2:4] = (99).to_bytes(2, "big")
    with pytest.raises(UnsupportedVersionError, match="HeartbeatRequest has versions 0 to 4, not 99"):
        ServerFraming().receive(frame)


def test_an_unknown_request_is_refused() -> None:
    with pytest.raises(ProtocolError, match="unknown API key 999"):
        ServerFraming().receive(struct.pack(">hhihxx", 999, 0, 1, -1))


@pytest.mark.parametrize("extra", [b"\x00", b"more"])
def test_bytes_behind_a_request_or_a_response_are_refused(extra: bytes) -> None:
    client, server = ClientFraming("me"), ServerFraming()
    frame = _frame(client.send(HeartbeatRequest(), 4))
    with pytest.raises(ProtocolError, match="too many at its end"):
        server.receive(frame + extra)
    answer = _frame(server.send(server.receive(frame), HeartbeatResponse()))
    with pytest.raises(ProtocolError, match="too many at its end"):
        client.receive(answer + extra)


def test_three_bytes_behind_a_request_for_all_topics_pass_since_librdkafka_sends_them() -> None:
    client, server = ClientFraming("me"), ServerFraming()
    everything = _frame(client.send(MetadataRequest(topics=None), 12))
    assert server.receive(everything + bytes(3)).message == MetadataRequest(topics=None)
    with pytest.raises(ProtocolError, match="4 bytes too many"):
        server.receive(everything + bytes(4))
    with pytest.raises(ProtocolError, match="3 bytes too many"):
        server.receive(_frame(client.send(MetadataRequest(topics=[]), 12)) + bytes(3))


def test_a_frame_may_be_empty_and_as_large_as_allowed_but_no_larger() -> None:
    assert frame_length(bytes(8), 10) == 0
    assert frame_length(b"\x00\x00\x00\x0a0123456789", 10) == 10
    with pytest.raises(ProtocolError, match="11 bytes, but at most 10 are allowed"):
        frame_length(b"\x00\x00\x00\x0b", 10)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"\xff\xff\xff\xff", "length -1"),
        (b"\x80\x00\x00\x00", "length -2147483648"),
        (b"\x7f\xff\xff\xff", "2147483647 bytes"),
        (b"HTTP", "web server's port"),
        (b"GET ", "speaks HTTP"),
        (b"POST", "speaks HTTP"),
        (b"\x16\x03\x01\x02", "speaks TLS"),
        (b"\x15\x03\x03\x00", "speaks TLS"),
    ],
)
def test_a_length_that_is_none_says_what_the_peer_may_be(head: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        frame_length(head, 100_000_000)
    with pytest.raises(ProtocolError, match=reason):
        frame_length(head + b"whatever follows", 100_000_000)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_garbage_is_refused_by_the_server_with_an_error_of_our_own(data: bytes) -> None:
    try:
        ServerFraming().receive(data)
    except KafkaError:
        return


@settings(deadline=None)
@given(st.sampled_from(_ALL_VERSIONS), st.binary(max_size=200))
def test_garbage_behind_a_good_header_is_refused_with_an_error_of_our_own(
    which: tuple[int, int], data: bytes
) -> None:
    try:
        ServerFraming().receive(struct.pack(">hhih", *which, 7, -1) + data)
    except ProtocolError:
        return


@settings(deadline=None)
@given(st.sampled_from(sorted(REQUESTS)), st.binary(max_size=200))
def test_garbage_is_refused_by_the_client_with_an_error_of_our_own(key: int, data: bytes) -> None:
    for version in range(REQUESTS[key].versions[0], REQUESTS[key].versions[1] + 1):
        client = ClientFraming("me")
        client.send(REQUESTS[key](), version)
        try:
            client.receive(bytes(4) + data)
        except ProtocolError:
            continue


def test_every_request_cut_short_is_refused() -> None:
    frame = _frame(ClientFraming("me").send(FetchRequest(rack_id="r"), 12))
    for length in range(len(frame)):
        with pytest.raises(ProtocolError):
            ServerFraming().receive(frame[:length])

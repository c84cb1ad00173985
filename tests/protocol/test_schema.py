"""The behaviour of messages as Python objects, and the values that cannot be encoded."""

from typing import Any

import pytest

from pyklient.errors import ProtocolError, UnsupportedVersionError
from pyklient.protocol import messages
from pyklient.protocol.messages import (
    REQUESTS,
    RESPONSE_TO,
    RESPONSES,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    CreateTopicsRequest,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    MetadataRequest,
    ProduceRequest,
    SaslAuthenticateRequest,
    SyncGroupResponse,
)
from pyklient.protocol.primitives import Reader
from pyklient.protocol.schema import ApiMessage

pytestmark = pytest.mark.usefixtures("functions")


def test_requests_and_responses_are_found_by_api_key() -> None:
    assert REQUESTS.keys() == RESPONSES.keys()
    assert REQUESTS[12] is HeartbeatRequest
    assert RESPONSES[1] is FetchResponse


def test_each_request_has_its_response() -> None:
    found = {key: RESPONSE_TO[request] for key, request in REQUESTS.items()}
    assert found == RESPONSES


def test_each_message_is_found_by_its_name() -> None:
    assert all(getattr(messages, name).__name__ == name for name in messages.__all__ if name[-1].islower())


@pytest.mark.parametrize("key", sorted(REQUESTS))
def test_a_request_and_its_response_have_the_same_versions(key: int) -> None:
    assert REQUESTS[key].versions == RESPONSES[key].versions
    assert REQUESTS[key].flexible == RESPONSES[key].flexible


@pytest.mark.parametrize("cls", [*REQUESTS.values(), *RESPONSES.values()], ids=lambda cls: cls.__name__)
def test_a_message_without_arguments_makes_the_round_trip_in_every_version(
    cls: type[ApiMessage],
) -> None:
    for version in range(cls.versions[0], cls.versions[1] + 1):
        assert cls.decode(b"".join(cls().encode(version)), version) == cls()


def test_known_bytes_of_a_classic_and_of_a_flexible_version() -> None:
    request = HeartbeatRequest(group_id="g", generation_id=7, member_id="me", group_instance_id="i")
    assert b"".join(request.encode(3)).hex() == "0001670000000700026d65000169"
    assert b"".join(request.encode(4)).hex() == "026700000007036d65026900"


def test_objects_do_not_share_their_arrays() -> None:
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(FetchRequest.FetchTopic(topic="t"))
    assert second.topics == []
    assert FetchRequest().topics == []


def test_decoded_objects_do_not_share_what_their_version_lacks() -> None:
    encoded = b"".join(FetchResponse(responses=[FetchResponse.FetchableTopicResponse()]).encode(4))
    first, second = FetchResponse.decode(encoded, 4), FetchResponse.decode(encoded, 4)
    first.node_endpoints.append(FetchResponse.NodeEndpoint())
    assert second.node_endpoints == []


def test_a_misspelt_field_is_an_error() -> None:
    misspelt: dict[str, Any] = {"grup_id": "g"}
    with pytest.raises(TypeError):
        HeartbeatRequest(**misspelt)
    request: Any = HeartbeatRequest()
    with pytest.raises(AttributeError):
        request.grup_id = "g"


def test_a_value_that_the_version_cannot_carry_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match=r"group_instance_id='i' in version 2"):
        HeartbeatRequest(group_instance_id="i").encode(2)


def test_an_ignorable_value_is_left_out_by_versions_without_it() -> None:
    request = FetchRequest(rack_id="r")
    assert request.encode(10) == FetchRequest().encode(10)
    assert request.encode(11) != FetchRequest().encode(11)


def test_none_is_refused_by_versions_before_it_was_allowed() -> None:
    with pytest.raises(UnsupportedVersionError, match="topics cannot be None in version 0"):
        MetadataRequest(topics=None).encode(0)
    assert MetadataRequest.decode(b"".join(MetadataRequest(topics=None).encode(1)), 1).topics is None


@pytest.mark.parametrize(
    ("cls", "version", "data"),
    [
        pytest.param(HeartbeatRequest, 0, "ffff 00000000 0000", id="string"),
        pytest.param(HeartbeatRequest, 4, "00 00000000 01 00 00", id="compact string"),
        pytest.param(SaslAuthenticateRequest, 0, "ffffffff", id="bytes"),
        pytest.param(SaslAuthenticateRequest, 2, "00 00", id="compact bytes"),
        pytest.param(MetadataRequest, 0, "ffffffff", id="array"),
        pytest.param(CreateTopicsRequest, 5, "00 00000000 00 00", id="compact array"),
    ],
)
def test_null_from_the_peer_is_refused_where_there_is_none(
    cls: type[ApiMessage], version: int, data: str
) -> None:
    with pytest.raises(ProtocolError, match="is null, which its field does not allow"):
        cls.decode(bytes.fromhex(data), version)


def test_null_from_the_peer_is_empty_where_the_field_says_so() -> None:
    frame = SyncGroupResponse(error_code=27, assignment=b"").encode(3)
    (whole,) = map(bytes, frame)
    nulled = whole.removesuffix(bytes(4)) + b"\xff\xff\xff\xff"
    decoded = SyncGroupResponse.read(Reader(nulled), 3)
    assert (decoded.error_code, decoded.assignment) == (27, b"")


def test_none_is_refused_where_no_version_has_null() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="group_id=None"):
        HeartbeatRequest(group_id=nothing).encode(4)
    with pytest.raises(TypeError, match="auth_bytes"):
        SaslAuthenticateRequest(auth_bytes=nothing).encode(1)
    with pytest.raises(TypeError, match="topics=None"):
        CreateTopicsRequest(topics=nothing).encode(5)


@pytest.mark.parametrize("version", [-1, 5, 1000])
def test_an_unknown_version_is_refused_both_ways(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match="HeartbeatRequest has versions 0 to 4"):
        HeartbeatRequest().encode(version)
    with pytest.raises(UnsupportedVersionError, match="HeartbeatRequest has versions 0 to 4"):
        HeartbeatRequest.decode(b"", version)


def test_a_number_out_of_range_is_named_with_its_place() -> None:
    made = CreateTopicsRequest.CreatableTopic
    request = CreateTopicsRequest(topics=[made(name="a"), made(name="b", num_partitions=1 << 40)])
    with pytest.raises(ValueError, match=r"topics\[1\]\.num_partitions=1099511627776") as caught:
        request.encode(7)
    assert str(caught.value).startswith("CreateTopicsRequest v7")


@pytest.mark.parametrize("version", [0, 4])
def test_a_value_of_the_wrong_type_is_named(version: int) -> None:
    wrong: Any = b"me"
    with pytest.raises(TypeError, match=r"HeartbeatRequest v\d .* member_id=b'me'"):
        HeartbeatRequest(member_id=wrong).encode(version)


def test_a_string_that_is_too_long_is_named() -> None:
    with pytest.raises(ValueError, match=r"group_id='xxx.*32767"):
        HeartbeatRequest(group_id="x" * 32_768).encode(0)


def test_secrets_are_shown_neither_by_repr_nor_by_errors() -> None:
    assert "hunter2" not in repr(SaslAuthenticateRequest(auth_bytes=b"hunter2"))
    wrong: Any = "hunter2"
    with pytest.raises(TypeError) as caught:
        SaslAuthenticateRequest(auth_bytes=wrong).encode(1)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("version", [0, 8, 13])
def test_record_bytes_pass_through_without_a_copy(version: int) -> None:
    records = [bytearray(b"batch one"), bytearray(b"batch two")]
    partition = ProduceRequest.PartitionProduceData(index=3, records=records)
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(partition_data=[partition])])
    parts = request.encode(version)
    assert [part for part in parts if any(part is buffer for buffer in records)] == records
    frame = b"".join(parts)
    decoded = ProduceRequest.decode(frame, version).topic_data[0].partition_data[0].records
    assert isinstance(decoded, memoryview)
    assert decoded.obj is frame
    assert bytes(decoded) == b"batch onebatch two"


def test_no_records_and_empty_records_are_told_apart() -> None:
    for records in (None, b""):
        partition = FetchResponse.PartitionData(records=records)
        response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])])
        for version in (4, 12):
            decoded = FetchResponse.decode(b"".join(response.encode(version)), version)
            assert decoded.responses[0].partitions[0].records == records


def test_unknown_tagged_fields_are_skipped() -> None:
    encoded = b"".join(HeartbeatRequest(member_id="me").encode(4))
    assert encoded.endswith(b"\x00")
    newer = encoded[:-1] + bytes.fromhex("02 05 03 010203 b960 00")
    assert HeartbeatRequest.decode(newer, 4) == HeartbeatRequest(member_id="me")


def test_a_known_tagged_field_must_fill_its_size() -> None:
    encoded = b"".join(FetchRequest(cluster_id="abc").encode(12))
    start = encoded.index(bytes.fromhex("01 00 04 04 616263"))
    assert FetchRequest.decode(encoded, 12).cluster_id == "abc"
    broken = encoded[: start + 2] + bytes.fromhex("05 04 616263 00") + encoded[start + 7 :]
    with pytest.raises(ProtocolError, match="cluster_id does not fill its 5 bytes"):
        FetchRequest.decode(broken, 12)


def test_bytes_behind_a_message_are_refused() -> None:
    encoded = b"".join(HeartbeatRequest().encode(0))
    with pytest.raises(ProtocolError, match="HeartbeatRequest v0 has 2 bytes too many"):
        HeartbeatRequest.decode(encoded + b"xx", 0)


@pytest.mark.parametrize("version", range(4))
def test_group_blobs_carry_their_version(version: int) -> None:
    subscription = ConsumerProtocolSubscription(topics=["a", "b"], user_data=b"u")
    blob = subscription.encode_blob(version)
    assert blob[:2] == version.to_bytes(2, "big")
    assert ConsumerProtocolSubscription.decode_blob(blob) == subscription


def test_a_group_blob_of_a_newer_version_is_read_as_far_as_known() -> None:
    assigned = ConsumerProtocolAssignment.TopicPartition(topic="t", partitions=[0, 3])
    assignment = ConsumerProtocolAssignment(assigned_partitions=[assigned])
    blob = assignment.encode_blob()
    assert blob[:2] == b"\x00\x03"
    newer = b"\x00\x09" + blob[2:] + b"something new"
    assert ConsumerProtocolAssignment.decode_blob(newer) == assignment


@pytest.mark.parametrize("blob", [b"", b"\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x00\x00"])
def test_a_group_blob_that_does_not_parse_is_refused(blob: bytes) -> None:
    with pytest.raises(ProtocolError):
        ConsumerProtocolSubscription.decode_blob(blob)

"""Malformed bytes for every message: an error of pyklient's own, in limited time and memory."""

import gc
import os
import struct
import time
import tracemalloc
from collections.abc import Iterator
from random import Random, SystemRandom

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import ProtocolError
from pyklient.protocol.messages import (
    REQUESTS,
    RESPONSES,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    DescribeGroupsResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    MetadataRequest,
    MetadataResponse,
    OffsetFetchRequest,
    RequestHeader,
)
from pyklient.protocol.primitives import encode_unsigned_varint
from pyklient.protocol.schema import ApiMessage
from tests.protocol.instances import random_message

pytestmark = pytest.mark.usefixtures("functions")
_MESSAGES: tuple[type[ApiMessage], ...] = (
    *REQUESTS.values(),
    *RESPONSES.values(),
    RequestHeader,
    ConsumerProtocolSubscription,
    ConsumerProtocolAssignment,
)
_PAIRS = [(cls, version) for cls in _MESSAGES for version in range(cls.versions[0], cls.versions[1] + 1)]
_SEED = int(os.environ.get("PYKLIENT_TEST_SEED") or SystemRandom().randrange(1 << 32))
_MEBIBYTE = 1 << 20
_PLACES = 40
"""The number of places in each version of a message where a run changes it. Each run chooses others."""


@pytest.fixture
def random() -> Random:
    print(f"PYKLIENT_TEST_SEED={_SEED}")
    return Random(_SEED)


@pytest.mark.parametrize("cls", _MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_cut_off_at_a_byte_is_refused(cls: type[ApiMessage], random: Random) -> None:
    for version in range(cls.versions[0], cls.versions[1] + 1):
        message, _ = random_message(cls, version, random)
        encoded = b"".join(message.encode(version))
        for length in _places(min(len(encoded), 400), random):
            with pytest.raises(ProtocolError):
                cls.decode(encoded[:length], version)


@pytest.mark.parametrize("cls", _MESSAGES, ids=lambda cls: cls.__name__)
def test_a_message_with_four_bytes_replaced_is_read_or_refused(cls: type[ApiMessage], random: Random) -> None:
    for version in range(cls.versions[0], cls.versions[1] + 1):
        message, _ = random_message(cls, version, random)
        encoded = b"".join(message.encode(version))
        for hostile in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", random.randbytes(4)):
            for start in _places(min(len(encoded), 100), random):
                _decode_or_refuse(cls, encoded[:start] + hostile + encoded[start + 4 :], version)


def _places(end: int, random: Random) -> list[int]:
    """Return up to ``_PLACES`` numbers below *end*."""
    return random.sample(range(end), min(end, _PLACES))


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(_PAIRS), st.binary(max_size=300))
def test_garbage_is_read_or_refused(pair: tuple[type[ApiMessage], int], data: bytes) -> None:
    _decode_or_refuse(pair[0], data, pair[1])


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_a_garbage_group_blob_is_read_or_refused(data: bytes) -> None:
    for cls in (ConsumerProtocolSubscription, ConsumerProtocolAssignment):
        try:
            cls.decode_blob(data)
        except ProtocolError:
            continue


def _decode_or_refuse(cls: type[ApiMessage], data: bytes, version: int) -> None:
    try:
        message = cls.decode(data, version)
    except ProtocolError:
        return
    assert isinstance(message, cls)


def _nested_arrays() -> Iterator[tuple[type[ApiMessage], int, bytes]]:
    """Yield messages with arrays that declare far more elements than they contain, on every level."""
    for count in (-2, 1_000, 1 << 24, 0x7FFFFFFF):
        yield MetadataRequest, 1, struct.pack(">i", count)
        yield FetchRequest, 0, struct.pack(">iiiih1si", -1, 0, 0, 1, 1, b"t", count)
        yield FetchResponse, 0, struct.pack(">ih1si", 1, 1, b"t", count)
        yield FetchResponse, 4, struct.pack(">iih1siihqqi", 0, 1, 1, b"t", 1, 0, 0, 0, 0, count)
        yield MetadataResponse, 0, struct.pack(">iihh1sihiii", 0, 1, 0, 1, b"t", 1, 0, 0, 0, count)
    for count in (1_001, 1 << 24, 0xFFFFFFFF):
        size = encode_unsigned_varint(count)
        yield MetadataRequest, 9, size
        yield FetchRequest, 12, struct.pack(">iiiibii", 0, 0, 0, 0, 0, 0, 0) + b"\x02\x02t" + size
        yield HeartbeatRequest, 4, b"\x01" + bytes(4) + b"\x01\x00" + size
        yield HeartbeatRequest, 4, b"\x01" + bytes(4) + b"\x01\x00\x01\x00" + size
        yield HeartbeatRequest, 4, size


@pytest.mark.parametrize(("cls", "version", "data"), list(_nested_arrays()))
def test_an_announced_size_costs_nothing_until_the_bytes_are_there(
    cls: type[ApiMessage], version: int, data: bytes
) -> None:
    with pytest.raises(ProtocolError):
        cls.decode(data, version)  # resolves the version, which is kept
    peak = _peak_of(cls, version, data)
    assert peak < 16 * 1024


_SMALL_ELEMENTS = [
    pytest.param(MetadataRequest, 0, 4, b"\x00\x00", b"", id="empty names"),
    pytest.param(MetadataRequest, 9, 5, b"\x01\x00", b"\x01\x00\x00\x00", id="empty compact names"),
    pytest.param(OffsetFetchRequest, 8, 5, b"\x01\x01\x00", b"\x00\x00", id="empty groups"),
    pytest.param(DescribeGroupsResponse, 5, 5, bytes(2) + b"\x01" * 5 + bytes(5), b"\x00", id="groups"),
]


@pytest.mark.parametrize(("cls", "version", "width", "element", "tail"), _SMALL_ELEMENTS)
def test_many_small_elements_cost_no_more_than_their_number_allows(
    cls: type[ApiMessage], version: int, width: int, element: bytes, tail: bytes
) -> None:
    head = b"" if cls is not DescribeGroupsResponse else bytes(4)

    def frame(count: int) -> bytes:
        size = struct.pack(">i", count) if width == 4 else encode_unsigned_varint(count + 1)
        return head + size + element * count + tail

    allowed = frame(10_000)
    assert cls.decode(allowed, version)
    assert _peak_of(cls, version, allowed) < 100 * len(allowed)
    gc.collect()
    begun = time.thread_time()
    with pytest.raises(ProtocolError, match="more than 1048576 array elements"):
        cls.decode(frame((1 << 20) + 1), version)
    assert time.thread_time() - begun < 10


def test_tagged_fields_count_as_elements() -> None:
    many = b"\x01" + bytes(4) + b"\x01\x00" + encode_unsigned_varint(1 << 21) + b"\x00\x00" * (1 << 21)
    with pytest.raises(ProtocolError, match="more than 1048576 array elements"):
        HeartbeatRequest.decode(many, 4)


def test_a_large_array_of_numbers_is_allowed_and_bounded() -> None:
    def frame(count: int) -> bytes:
        topic = ConsumerProtocolAssignment.TopicPartition(topic="t")
        encoded = b"".join(ConsumerProtocolAssignment(assigned_partitions=[topic]).encode(0))
        return encoded[:-8] + struct.pack(">i", count) + bytes(4 * count) + encoded[-4:]

    (assigned,) = ConsumerProtocolAssignment.decode(frame(2_000_000), 0).assigned_partitions
    assert len(assigned.partitions) == 2_000_000
    with pytest.raises(ProtocolError, match="more than 1048576 array elements"):
        ConsumerProtocolAssignment.decode(frame(9_000_000), 0)


def test_record_bytes_of_a_large_frame_are_not_copied() -> None:
    partition = FetchResponse.PartitionData(records=bytes(8 * _MEBIBYTE))
    response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=[partition])])
    frame = b"".join(response.encode(12))
    assert FetchResponse.decode(frame, 12)  # may generate the decoder, which is kept
    assert _peak_of(FetchResponse, 12, frame) < 64 * 1024
    tracemalloc.start()
    try:
        parts = response.encode(12)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(part) for part in parts) == len(frame)
    assert peak < 64 * 1024


def _peak_of(cls: type[ApiMessage], version: int, data: bytes) -> int:
    """Return the largest number of bytes of memory that decoding *data* uses at once."""
    gc.collect()
    tracemalloc.start()
    try:
        _decode_or_refuse(cls, data, version)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return peak

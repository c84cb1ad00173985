"""The compiled kernel encodes Produce requests, and decodes Produce responses, as the generated functions of
``protocol`` do."""

from random import Random
from typing import Any, Final, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient.protocol.encoder_generation import encoder
from pyklient.protocol.field_decoding import first_decoder
from pyklient.protocol.field_encoding import first_encoder
from pyklient.protocol.messages import ProduceRequest, ProduceResponse
from pyklient.protocol.primitives import Reader, Writer
from tests.kernel.kernels import COMPILED, outcome_of
from tests.protocol.instances import random_message

START: Final = b"a header"
Topic: Final = ProduceRequest.TopicProduceData
Partition: Final = ProduceRequest.PartitionProduceData
TopicResult: Final = ProduceResponse.TopicProduceResponse
PartitionResult: Final = ProduceResponse.PartitionProduceResponse

versions = st.integers(3, 12)
names = st.text(max_size=200)
views = st.binary(max_size=300).map(lambda data: memoryview(data))
buffers: st.SearchStrategy[Any] = st.lists(st.binary(max_size=300) | views, max_size=3)
rare_buffers: st.SearchStrategy[Any] = (
    st.none() | st.binary() | st.lists(st.binary().map(bytearray), max_size=2)
)


def requests(
    names: st.SearchStrategy[Any],
    acks: st.SearchStrategy[int],
    numbers: st.SearchStrategy[int],
    records: st.SearchStrategy[Any],
) -> st.SearchStrategy[ProduceRequest]:
    """Return random requests that have such topics, acks, other numbers and records."""
    partitions = st.lists(st.builds(Partition, index=numbers, records=records), max_size=3)
    return st.builds(
        ProduceRequest,
        transactional_id=st.none() | names,
        acks=acks,
        timeout_ms=numbers,
        topic_data=st.lists(st.builds(Topic, name=names, partition_data=partitions), max_size=3),
    )


def rejected(*arguments: Any) -> NoReturn:
    raise AssertionError("the kernel has left a common message to the general function")


def encoded(encode: Any, request: ProduceRequest) -> tuple[bytes, bytes]:
    """Return all bytes that *encode* writes, and those of the part in which the header can be changed."""
    writer = Writer(START)
    encode(writer, request)
    parts = writer.finish()
    assert type(parts[0]) is bytearray
    return b"".join(parts), bytes(parts[0])


def kernel_encoder(version: int, general: Any = None) -> Any:
    flexible = ProduceRequest.is_flexible(version)
    return COMPILED.ProduceEncoder(flexible, general or first_encoder(ProduceRequest, version, flexible))


def kernel_decoder(version: int, general: Any = None) -> Any:
    flexible = ProduceResponse.is_flexible(version)
    found = general or first_decoder(ProduceResponse, version, flexible)
    return COMPILED.ProduceDecoder(version, flexible, found, ProduceResponse)


def decoded(decode: Any, data: bytes) -> Any:
    """Return what *decode* reads behind the first two bytes of *data*, and the position after it."""
    reader = Reader(data)
    reader.pos = 2
    return decode(reader), reader.pos


@given(requests(names, st.integers(-1, 1), st.integers(0, (1 << 31) - 1), buffers), versions)
def test_a_request_has_the_same_bytes(request: ProduceRequest, version: int) -> None:
    general = encoder(ProduceRequest, version, ProduceRequest.is_flexible(version))
    assert encoded(kernel_encoder(version), request)[0] == encoded(general, request)[0]


@given(
    requests(
        st.sampled_from(("good", "long" * 9_000, "\ud800", 7)),
        st.sampled_from((1, 1 << 15)),
        st.sampled_from((0, (1 << 31) - 1, 1 << 31, -(1 << 31) - 1, 1 << 70)),
        buffers | rare_buffers,
    ),
    versions,
)
def test_a_rare_or_wrong_request_has_the_same_bytes_or_error(request: ProduceRequest, version: int) -> None:
    general = encoder(ProduceRequest, version, ProduceRequest.is_flexible(version))
    theirs = outcome_of(encoded, general, request)
    ours = outcome_of(encoded, kernel_encoder(version), request)
    assert ours[0] == theirs[0]


@pytest.mark.parametrize("version", range(3, 13))
def test_the_kernel_itself_encodes_the_requests_of_a_producer(version: int) -> None:
    payload = memoryview(bytes(range(250)) * 5)
    request = ProduceRequest(
        transactional_id="t",
        acks=-1,
        timeout_ms=30_000,
        topic_data=[
            Topic(
                name=name, partition_data=[Partition(index=n, records=[bytes(61), payload]) for n in (0, 7)]
            )
            for name in ("a", "b" * 300)
        ],
    )
    general = encoder(ProduceRequest, version, ProduceRequest.is_flexible(version))
    ours, first = encoded(kernel_encoder(version, rejected), request)
    assert ours == encoded(general, request)[0]
    assert first.startswith(START)


def test_records_are_not_copied_into_a_request() -> None:
    payload = memoryview(bytes(4_000))
    partition = Partition(index=0, records=[bytes(61), payload])
    request = ProduceRequest(acks=1, topic_data=[Topic(name="a", partition_data=[partition])])
    writer = Writer(START)
    kernel_encoder(12)(writer, request)
    assert any(part is payload for part in writer.finish())


@pytest.mark.parametrize("version", range(3, 13))
def test_the_kernel_itself_decodes_the_responses_without_error_messages(version: int) -> None:
    results = [
        PartitionResult(
            index=index,
            error_code=code,
            base_offset=1 << 40,
            log_append_time_ms=-1,
            log_start_offset=3 if version >= 5 else -1,
        )
        for index, code in ((0, 0), (1 << 20, 6), (2, -1))
    ]
    topics = [TopicResult(name=name, partition_responses=results) for name in ("a", "ä" * 200)]
    response = ProduceResponse(responses=topics, throttle_time_ms=70_000)
    data = b"".join([b"xx", *response.encode(version)])
    found, position = decoded(kernel_decoder(version, rejected), data)
    assert found == response
    assert position == len(data)
    first, second = found.responses[0].partition_responses[:2]
    assert first.record_errors is not second.record_errors
    assert first.current_leader is not second.current_leader


@given(versions, st.integers(0, 1 << 32), st.integers(0, 400), st.binary(max_size=4))
def test_random_damaged_and_cut_off_responses_have_the_same_result(
    version: int, seed: int, position: int, damage: bytes
) -> None:
    response, _ = random_message(ProduceResponse, version, Random(seed))
    whole = b"".join([b"xx", *response.encode(version)])
    general = first_decoder(ProduceResponse, version, ProduceResponse.is_flexible(version))
    place = 2 + position % (len(whole) - 1)
    damaged = whole[:place] + damage + whole[place + len(damage) :]
    for data in (whole, damaged, whole[:place], whole + damage):
        theirs = outcome_of(decoded, general, data)
        ours = outcome_of(decoded, kernel_decoder(version), data)
        assert ours == theirs

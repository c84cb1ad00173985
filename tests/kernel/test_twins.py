"""Both kernels return the same bytes and objects and raise the same exceptions, for good and for bad
input."""

import pickle
from inspect import getdoc
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.kernel import encode_batch, encode_values_batch
from pyklient.protocol.records import AbortedTransactions, Compression, NewRecord, batch_header
from pyklient.serialization import decode_json, decode_text
from tests.kernel.kernels import COMPILED, KERNELS, PYTHON, outcome_of
from tests.kernel.samples import ALLOWED, LEGACY_SAMPLES, SAMPLES, new_records

INT64: Final = (1 << 63) - 1
FIELDS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp_ms",
    "timestamp_type",
    "key",
    "value",
    "headers",
)
BATCHES: Final = [
    encode_batch(SAMPLES if magic == 2 else LEGACY_SAMPLES, magic=magic, compression=codec, base_offset=3)
    for magic, codec in ALLOWED
] + [
    encode_batch([NewRecord(1, bytes(4), bytes(6))], producer_id=5, transactional=True, control=True),
    encode_batch([], producer_id=5, transactional=True, control=True),
    encode_batch(SAMPLES, timestamp_type=1, base_offset=INT64 - 20),
    encode_batch([], base_offset=8, producer_id=5),
]

int64s = st.integers(-(1 << 63), INT64) | st.integers(-2, 300)
nullable_bytes = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=70), st.none() | st.binary(max_size=70)), max_size=70)


def plain(message: Any) -> tuple[Any, ...]:
    """Return a message of either kernel as a tuple."""
    return tuple(getattr(message, name) for name in FIELDS)


def same(name: str, *arguments: Any, **options: Any) -> Any:
    """Return the result of a call, which must be the same for both kernels."""
    results = [outcome_of(getattr(kernel, name), *arguments, **options) for kernel in KERNELS]
    assert results[0] == results[1]
    return results[0]


def same_messages(*arguments: Any) -> None:
    """Return the messages of a call, which must be the same for both kernels."""
    results = [outcome_of(call, *arguments) for call in (PYTHON.parse_messages, iterated)]
    lists = [[plain(one) for one in result] if isinstance(result, list) else result for result in results]
    assert lists[0] == lists[1]


def iterated(*arguments: Any) -> list[Any]:
    """Return the messages that an iterator of the compiled kernel makes."""
    *section, topic, partition, start_offset = arguments
    iterator = COMPILED.MessageIterator(topic, partition)
    iterator.add(*section, start_offset)
    assert iterator.count == len(iterator.remaining_messages())
    return list(iterator)


def read(kernel: Any, data: bytes, **options: Any) -> tuple[list[Any], Any]:
    """Return everything in *data*, chunk by chunk: facts, messages, and the error that ends it."""
    seen: list[Any] = []
    position = start = 0
    aborted = AbortedTransactions([(-1, 0), (5, 3)])
    try:
        while True:
            chunk = kernel.decode(data, "t", 1, start, position=position, aborted=aborted, **options)
            if not chunk.nbytes and not chunk.remaining:
                return seen, None
            assert {type(message) for message in chunk._messages} <= {kernel.Message}
            seen.append((chunk.next_offset, chunk.nbytes, [plain(message) for message in chunk]))
            position += chunk.nbytes
            start = chunk.next_offset
    except Exception as error:
        return seen, (type(error), str(error), getattr(error, "__notes__", []))


def same_reading(data: bytes, **options: Any) -> None:
    assert read(PYTHON, data, **options) == read(COMPILED, data, **options)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.integers(0, 5), st.integers(-3, 40), int64s, int64s, st.integers(0, 40))
def test_noise_as_records(
    noise: bytes, count: int, last_delta: int, base: int, timestamp: int, start: int
) -> None:
    same("parse_records", noise, count, base, last_delta, timestamp)
    for append_time in (None, 1234):
        same_messages(
            noise, count, base, last_delta, timestamp, append_time, "t", 3, min(base + start, INT64)
        )


@settings(deadline=None, max_examples=250)
@given(st.data())
def test_mutated_records(data: st.DataObject) -> None:
    records = data.draw(st.lists(new_records, max_size=5) | st.just(SAMPLES))
    mutated = bytearray(encode_batch(records)[61:])
    for _ in range(data.draw(st.integers(0, 3)) if mutated else 0):
        at = data.draw(st.integers(0, min(len(mutated), 40) - 1) | st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    if data.draw(st.booleans()):
        del mutated[data.draw(st.integers(0, len(mutated))) :]
    base, timestamp = data.draw(st.just(3) | int64s), data.draw(int64s)
    arguments = (bytes(mutated), len(records), base, len(records) + 1, timestamp)
    same("parse_records", *arguments)
    same("parse_records", memoryview(mutated), *arguments[1:])
    for start in (base, base + 2, base + 100):
        same_messages(*arguments, data.draw(st.none() | int64s), "t", 0, min(start, INT64))


@pytest.mark.parametrize(
    "deltas", [[0, 1, 2, 5, 6, 9], [0, 1, 0, 1], [0, 1, 3, 3], [0, 1, 3, 2], [1, 2, 3], [0, 1, 2]]
)
def test_offset_deltas_with_gaps(deltas: list[int]) -> None:
    records = [NewRecord(1, None, b"x", [("index", b"%d" % index)]) for index in range(len(deltas))]
    data = encode_batch(records, offset_deltas=deltas)[61:]
    for last_delta in (1, 2, 8, 9):
        same("parse_records", data, len(deltas), 7, last_delta, 1)
    same("parse_records", data, len(deltas), INT64 - 1, 9, 1)


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_mutated_batches(data: st.DataObject) -> None:
    mutated = bytearray(data.draw(st.sampled_from(BATCHES)))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, min(len(mutated), 150) - 1) | st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    same_reading(bytes(mutated), check_crcs=data.draw(st.booleans()))
    same("control_type", bytes(mutated).ljust(61))


@settings(deadline=None)
@given(st.lists(new_records, max_size=6), st.integers(0, INT64 - 6), st.sampled_from(list(Compression)))
def test_good_batches(records: list[NewRecord], base_offset: int, codec: Compression) -> None:
    data = encode_batch(records, base_offset=base_offset, compression=codec)
    same_reading(data)
    same_reading(data, key_decoder=decode_text, value_decoder=decode_json)


@pytest.mark.parametrize("batch", BATCHES)
def test_batches_cut_off_at_every_byte(batch: bytes) -> None:
    for cut in range(min(len(batch), 400)):
        same_reading(batch[:cut])
        if cut > 61:
            for count in (1, len(SAMPLES)):
                same("parse_records", batch[61:cut], count, 0, 10, 0)


def test_every_byte_of_a_record_at_its_limits() -> None:
    """Each byte of a small section in turn is replaced by the values that are most likely to cause an
    error."""
    section = encode_batch([NewRecord(7, b"k", b"v", (("n", b"h"),)), NewRecord(9, None, None)])[61:]
    for at in range(len(section)):
        for byte in (0, 1, 2, 3, 0x7E, 0x7F, 0x80, 0x81, 0xFE, 0xFF):
            mutated = section[:at] + bytes((byte,)) + section[at + 1 :]
            same("parse_records", mutated, 2, 0, 1, 0)
            longer = section[:at] + bytes((byte | 0x80,)) + b"\xff" * 9 + section[at + 1 :]
            same("parse_records", longer, 2, 0, 1, 0)


@settings(deadline=None)
@given(int64s, st.integers(0, INT64), nullable_bytes, nullable_bytes, headers)
def test_encoded_records(
    timestamp: int, delta: int, key: bytes | None, value: bytes | None, pairs: list[tuple[str, bytes | None]]
) -> None:
    record = same("encode_record", timestamp, delta, key, value, pairs)
    assert record == same("encode_record", timestamp, delta, key, value, tuple(pairs))
    if delta < 1 << 31:
        columns = same("parse_records", record, 1, 0, delta, 0)
        assert columns[1:4] == ([timestamp], [key], [value])


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8191, 8192, (1 << 20) - 1, 1 << 20])
def test_encoded_sizes_at_the_edges_of_a_varint(size: int) -> None:
    for number in (size, -size, size << 20, 1 << 62, INT64, -INT64 - 1):
        same("encode_record", number, size, bytes(size), bytes(size), [("n" * size, bytes(size))])


@settings(deadline=None)
@given(st.lists(new_records, max_size=5), int64s)
def test_encoded_runs_of_records(records: list[NewRecord], base_timestamp: int) -> None:
    encoded = same("encode_records", records, base_timestamp)
    assert {kernel.encode_records(iter(records), base_timestamp) for kernel in KERNELS} == {encoded}
    deltas = [3 * index for index in range(len(records))]
    same("encode_records", records, base_timestamp, deltas)
    same("encode_records", records, base_timestamp, [*deltas, 1])


@settings(deadline=None)
@given(st.lists(st.tuples(nullable_bytes, nullable_bytes), max_size=70), int64s)
def test_encoded_values_are_those_of_records_with_one_timestamp(pairs: list[Any], timestamp_ms: int) -> None:
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    records = [NewRecord(timestamp_ms, key, value) for key, value in pairs]
    assert same("encode_values", values, keys) == PYTHON.encode_records(records, timestamp_ms)
    keyless = [NewRecord(timestamp_ms, None, value) for value in values]
    assert same("encode_values", values) == PYTHON.encode_records(keyless, timestamp_ms)
    same("encode_values", values, [*keys, None])
    for other in (bytearray(b"a"), "a", 1):
        same("encode_values", [*values, other], [*keys, None])
        same("encode_values", [*values, b"a"], [*keys, other])


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_batch_of_values_is_that_of_the_same_records(magic: int) -> None:
    keys, values = [b"k", None, b""], [b"v", None, b"w" * 300]
    records = [NewRecord(7, key, value) for key, value in zip(keys, values, strict=True)]
    for codec in (Compression.NONE, Compression.GZIP, Compression.SNAPPY):
        parts = encode_values_batch(values, keys, timestamp_ms=7, magic=magic, compression=codec)
        assert b"".join(parts) == encode_batch(records, magic=magic, compression=codec)


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_other_buffers_are_encoded_as_bytes_are(kind: Any) -> None:
    for kernel in KERNELS:
        assert kernel.encode_record(0, 0, kind(b"k"), kind(b"v"), [("h", kind(b"x"))]) == (
            kernel.encode_record(0, 0, b"k", b"v", [("h", b"x")])
        )


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 0, "k", None),
        (0, 0, None, "v"),
        (0, 0, None, 5),
        (0, 0, None, None, 5),
        (0, 0, None, None, [5]),
        (0, 0, None, None, [("n",)]),
        (0, 0, None, None, [("n", b"", b"")]),
        (0, 0, None, None, [(b"n", b"")]),
        (0, 0, None, None, [("\ud800", b"")]),
        (0, 0, None, None, [("n", "v")]),
        (0, 0, None, None, [(None, b"")]),
        ("0", 0, None, None),
        (None, 0, None, None),
    ],
)
def test_what_no_record_can_be_made_of_raises_the_same(arguments: Any) -> None:
    for kernel in KERNELS:
        with pytest.raises((TypeError, ValueError, AttributeError)):
            kernel.encode_record(*arguments)
    python, compiled = (outcome_of(kernel.encode_record, *arguments) for kernel in KERNELS)
    assert python[0] is compiled[0]


@settings(deadline=None)
@given(st.binary(max_size=100))
def test_hashes(data: bytes) -> None:
    same("murmur2", data)
    same("murmur2", memoryview(data)[1:])


class TestMessages:
    FIELDS: Final = ("clicks", 3, 17, 1_700_000_000_000, 0, b"key", {"a": 1}, (("h", None),))

    def test_look_the_same(self) -> None:
        python, compiled = (kernel.Message(*self.FIELDS) for kernel in KERNELS)
        assert repr(python) == repr(compiled)
        assert hash(python) == hash(compiled)
        assert plain(python) == plain(compiled) == self.FIELDS
        assert python.__reduce__() == compiled.__reduce__()
        assert pickle.dumps(python) == pickle.dumps(compiled)
        assert PYTHON.Message.__module__ == COMPILED.Message.__module__
        # From 3.13 on, Python removes the indentation of docstrings. Cython keeps it.
        assert getdoc(PYTHON.Message) == getdoc(COMPILED.Message)

    @pytest.mark.parametrize("at", [1, 2, 3, 4])
    @pytest.mark.parametrize("wrong", ["1", None, 1.0, 1 << 31, 1 << 63, -(1 << 63) - 1, 300])
    def test_refuse_the_same_numbers(self, at: int, wrong: Any) -> None:
        fields = [*self.FIELDS[:at], wrong, *self.FIELDS[at + 1 :]]
        python, compiled = (outcome_of(kernel.Message, *fields) for kernel in KERNELS)
        if isinstance(python, PYTHON.Message):
            assert plain(python) == plain(compiled)
        else:
            assert python[0] is compiled[0]

    def test_cannot_be_changed(self) -> None:
        for name in ("offset", "anything"):
            python, compiled = (
                outcome_of(setattr, kernel.Message(*self.FIELDS), name, 1) for kernel in KERNELS
            )
            assert python == compiled
            assert python[0] is AttributeError


def test_a_section_that_claims_more_than_it_holds_takes_no_memory() -> None:
    for count in (1 << 31, 1 << 62, INT64, -1, -INT64):
        same("parse_records", bytes(1000), count, 0, 10, 0)
        same_messages(bytes(1000), count, 0, 10, 0, None, "t", 0, 0)


@pytest.mark.parametrize("data", ["text", 5, None, memoryview(bytes(100))[::2], [1, 2]])
def test_what_is_no_buffer_is_refused(data: Any) -> None:
    for kernel in KERNELS:
        for call in (kernel.murmur2, lambda data, kernel=kernel: kernel.parse_records(data, 1, 0, 0, 0)):
            result = outcome_of(call, data)
            assert isinstance(result, int) or issubclass(result[0], Exception)


def test_headers_of_a_batch_that_lies_about_its_length() -> None:
    for size in range(8, 60):
        body = bytes((0, 0, 0, 1, 1, 2, 2 * size)) + b"n" * 8
        record = bytes((2 * len(body),)) + body
        same_reading(batch_header(record, count=1, base_timestamp=1, max_timestamp=1) + record)


int32s = st.integers(-(1 << 31), (1 << 31) - 1)
int16s = st.integers(-(1 << 15), (1 << 15) - 1)


@settings(deadline=None)
@given(
    st.binary(max_size=300),
    st.fixed_dictionaries(
        {"count": int32s.filter(lambda count: count > -(1 << 31)), "base_timestamp": int64s},
        optional={
            "compression": st.sampled_from(list(Compression)),
            "base_offset": int64s,
            "last_offset_delta": st.none() | int32s,
            "timestamp_type": st.sampled_from([0, 1]),
            "producer_id": int64s,
            "producer_epoch": int16s,
            "base_sequence": int32s,
            "transactional": st.booleans(),
            "control": st.booleans(),
            "partition_leader_epoch": int32s,
        },
    ),
    int64s,
)
def test_headers_of_batches(payload: bytes, fields: dict[str, Any], max_timestamp: int) -> None:
    header = same("batch_header", payload, max_timestamp=max_timestamp, **fields)
    assert header == same("batch_header", memoryview(payload), max_timestamp=max_timestamp, **fields)
    assert len(header) == 61


@pytest.mark.parametrize(
    "size", [0, 1, 7, 8, 9, 63, 64, 767, 768, 775, 1600, (256 << 10) - 1, 256 << 10, 1 << 20]
)
def test_checksums(size: int) -> None:
    data = bytes(number * 7 & 0xFF for number in range(size))
    whole = same("crc32c", data)
    for cut in {0, min(1, size), size // 2, size}:
        assert same("crc32c", memoryview(data)[cut:], same("crc32c", data[:cut])) == whole
    assert same("crc32c", b"123456789") == 0xE3069283

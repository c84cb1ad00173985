"""Decoding fetched bytes into columns: they hold the same records as the messages of ``decode``."""

from array import array
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import CorruptRecordError, MessageTooLargeError
from pyklient.kernel import encode_batch
from pyklient.kernel.decode.column_decoding import OPTIONAL_COLUMNS, ArrowColumns, ByteColumn, readable
from pyklient.protocol.records import (
    LOG_APPEND_TIME,
    AbortedTransactions,
    Compression,
    NewRecord,
    batch_header,
)
from tests.kernel.kernels import KERNELS, outcome_of
from tests.kernel.rows import cells, row_of, rows, rows_left
from tests.kernel.samples import ALLOWED, LEGACY_SAMPLES, SAMPLES, batches_of, new_records

INT64: Final = (1 << 63) - 1


def batch(base: int, count: int = 3, **facts: Any) -> bytes:
    records = [NewRecord(1000 + index, None, b"%d" % (base + index)) for index in range(count)]
    return encode_batch(records, base_offset=base, **facts)


def chunks_of(call: Any, data: bytes, start: int = 0, **options: Any) -> tuple[list[Any], Any]:
    """Return everything that *call* reads from *data*, chunk by chunk, and the error that ends it."""
    seen: list[Any] = []
    position = 0
    aborted = AbortedTransactions([(-1, 0), (5, 3)])
    try:
        while True:
            chunk = call(data, "t", 1, start, position=position, aborted=aborted, **options)
            if not chunk.nbytes and not chunk.remaining:
                return seen, None
            seen.append(chunk)
            assert chunk.nbytes or chunk.next_offset > start, "it goes on from there for ever"
            position += chunk.nbytes
            start = chunk.next_offset
    except Exception as error:
        return seen, (type(error), str(error), getattr(error, "__notes__", []))


def check(data: bytes, start: int = 0, **options: Any) -> None:
    """Check that both kernels decode *data* into the same columns, which hold the records of ``decode``."""
    twins = [chunks_of(kernel.decode_columns, data, start, **options) for kernel in KERNELS]
    (python, python_error), (compiled, compiled_error) = twins
    assert [chunk._columns for chunk in python] == [chunk._columns for chunk in compiled]
    assert [(c.nbytes, c.next_offset) for c in python] == [(c.nbytes, c.next_offset) for c in compiled]
    messages, error = chunks_of(KERNELS[1].decode, data, start, **options)
    assert python_error == compiled_error == error
    found = [row for chunk in compiled for row in rows_left(chunk)]
    assert found == [row_of(message) for chunk in messages for message in chunk]
    for kernel in KERNELS:
        for left_out in LEFT_OUT:
            some, some_error = chunks_of(kernel.decode_columns, data, start, left_out=left_out, **options)
            assert some_error == error
            assert [each.left_out for each in some] == [left_out] * len(compiled)
            assert [each._columns for each in some] == [without(each._columns, left_out) for each in compiled]


def without(columns: ArrowColumns, left_out: frozenset[str]) -> tuple[Any, ...]:
    """Return *columns* as they are if the columns in *left_out* are not made."""
    nothing = memoryview(b"")
    no_bytes = ByteColumn(None, memoryview(array("i", (0,))), nothing)
    empty = (None, nothing, nothing, no_bytes, no_bytes, None)
    names = ("offset", "timestamp", "timestampType", "key", "value", "headers")
    return tuple(
        instead if name in left_out else column
        for name, column, instead in zip(names, columns, empty, strict=True)
    )


@settings(deadline=None)
@given(st.data(), st.sampled_from(ALLOWED), st.integers(0, INT64 - 20))
def test_columns_hold_what_was_written(data: st.DataObject, pair: tuple[int, Compression], base: int) -> None:
    magic, codec = pair
    runs = data.draw(st.lists(batches_of(magic), min_size=1, max_size=3))
    written = bytearray()
    places = [base]
    for run in runs:
        written += encode_batch(run, magic=magic, compression=codec, base_offset=places[-1])
        places.append(min(places[-1] + len(run), INT64 - 20))
    check(bytes(written), data.draw(st.sampled_from([0, *places, base + 1])))


def test_log_append_time_is_every_records_time(kernel: Any) -> None:
    data = encode_batch(SAMPLES, timestamp_type=LOG_APPEND_TIME) + batch(len(SAMPLES))
    found = rows(kernel.decode_columns(data, "t", 0, 0)._columns)
    latest = max(record.timestamp_ms for record in SAMPLES)
    assert [row[1:3] for row in found] == [(latest, 1)] * len(SAMPLES) + [(1000, 0), (1001, 0), (1002, 0)]


def test_columns_that_are_finished_do_not_move_under_whoever_reads_them(kernel: Any) -> None:
    filling = kernel.ColumnBuilder(frozenset())
    section = encode_batch([NewRecord(1, b"k", b"v" * 50)] * 4_000)[61:]
    filling.add(section, 4_000, 0, 3_999, 0, None, 0)
    columns = filling.finish()
    before = [columns.offsets.tolist(), bytes(columns.values.data)]
    with pytest.raises(BufferError, match="exporting buffers"):
        filling.add(section, 4_000, 4_000, 3_999, 0, None, 0)
    others = [kernel.decode_columns(batch(5, 20_000), "t", 0, 5) for _ in range(3)]
    assert [columns.offsets.tolist(), bytes(columns.values.data)] == before
    assert {len(other._columns.offsets) for other in others} == {20_000}


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 1000])
def test_what_is_null_is_told_from_what_is_empty(kernel: Any, count: int) -> None:
    for pattern in range(4):
        records = [
            NewRecord(1, None if index % 3 == pattern else b"", b"" if index % 5 == pattern else None)
            for index in range(count)
        ]
        data = b"".join(
            encode_batch(records[start : start + 30], base_offset=start) for start in range(0, count, 30)
        )
        columns = kernel.decode_columns(data, "t", 0, 0)._columns
        assert cells(columns.keys) == [record.key for record in records]
        assert cells(columns.values) == [record.value for record in records]


def test_headers_of_each_record_stay_with_it(kernel: Any) -> None:
    records = [
        NewRecord(1, None, None, tuple((f"name-{index}", bytes(index)) for index in range(count)))
        for count in (0, 3, 0, 0, 200, 1)
    ]
    data = encode_batch(records) + encode_batch(records, base_offset=6)
    for start in range(12):
        found = rows(kernel.decode_columns(data, "t", 0, start)._columns)
        assert [row[5] for row in found] == [record.headers for record in (records * 2)[start:]]


@pytest.mark.parametrize("name", ["größe", "\U0001f600", "\x7f", "\x80"])
def test_header_names_beyond_ascii(kernel: Any, name: str) -> None:
    data = encode_batch([NewRecord(1, None, None, ((name, b"v"), ("plain", None)))])
    [row] = rows(kernel.decode_columns(data, "t", 0, 0)._columns)
    assert row[5] == ((name, b"v"), ("plain", None))


def test_header_names_that_are_not_utf_8_are_readable_one_by_one() -> None:
    """Two names that each end in half a character are not joined into one."""
    data = bytearray(encode_batch([NewRecord(1, None, None, (("n1", b"v"), ("n2", b""), ("é", b"")))]))
    data[data.index(b"n1") + 1] = 0xC3
    data[data.index(b"n2")] = 0xA9
    check(bytes(data), check_crcs=False)
    column = ByteColumn(None, memoryview(array("i", (0, 1, 2))), memoryview(b"\xc3\xa9"))
    assert cells(readable(column)) == ["\ufffd".encode()] * 2


class TestPlaces:
    @pytest.mark.parametrize(("magic", "codec"), ALLOWED)
    def test_reading_starts_in_the_middle_of_a_batch(self, magic: int, codec: Compression) -> None:
        data = b"".join(batch(at, compression=codec, magic=magic) for at in (10, 13, 16))
        for start in range(9, 20):
            check(data, start)

    def test_batches_that_overlap_are_read_once(self) -> None:
        check(batch(0) + batch(1) + batch(2))

    def test_a_chunk_ends_with_a_whole_batch_once_it_holds_enough(self, kernel: Any) -> None:
        data = batch(0, 60) + batch(60, 60) + batch(120, 60)
        chunk = kernel.decode_columns(data, "t", 0, 0, enough=61)
        assert (chunk.remaining, chunk.next_offset) == (120, 120)
        rest = kernel.decode_columns(data, "t", 0, 120, position=chunk.nbytes, enough=61)
        assert (rest.remaining, rest.next_offset) == (60, 180)
        assert chunk.nbytes + rest.nbytes == len(data)

    def test_a_chunk_of_batches_that_compress_well_stays_small(self, kernel: Any) -> None:
        large = encode_batch([NewRecord(1, None, bytes(3 << 20))], compression=Compression.ZSTD)
        data = b"".join(large[:7] + bytes((index,)) + large[8:] for index in range(20))
        assert kernel.decode_columns(data, "t", 0, 0).remaining == 2

    @pytest.mark.parametrize("magic", [0, 1, 2])
    def test_a_chunk_ends_before_what_arrow_could_not_count(self, kernel: Any, magic: int) -> None:
        records = [NewRecord(1, bytes(400), bytes(500))]
        data = b"".join(encode_batch(records, base_offset=at, magic=magic) for at in range(5))
        seen, error = chunks_of(kernel.decode_columns, data, most_bytes=2000)
        assert error is None
        assert [[row[0] for row in rows_left(chunk)] for chunk in seen] == [[0, 1], [2, 3], [4]]
        seen, error = chunks_of(kernel.decode_columns, data, most_bytes=5)
        assert error is None
        assert [chunk.remaining for chunk in seen] == [1] * 5, "one batch is always taken"

    def test_an_incomplete_batch_at_the_end_is_left(self, kernel: Any) -> None:
        whole, more = batch(0), batch(3)
        for cut in range(len(more)):
            chunk = kernel.decode_columns(whole + more[:cut], "t", 0, 0)
            assert (chunk.nbytes, chunk.next_offset) == (len(whole), 3)
        chunk = kernel.decode_columns(more[:-1], "t", 0, 3)
        assert (chunk.nbytes, chunk.remaining, chunk.next_offset) == (0, 0, 3)

    def test_control_and_aborted_batches_are_passed_over(self) -> None:
        def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
            return encode_batch(
                [NewRecord(1000, b"\x00\x00\x00" + bytes((commit,)), bytes(6))],
                base_offset=offset,
                producer_id=producer_id,
                transactional=True,
                control=True,
            )

        check(
            batch(0)
            + batch(3, producer_id=5, transactional=True)
            + marker(6, 5, commit=False)
            + batch(7, producer_id=5, transactional=True)
            + marker(10, 5, commit=True)
            + encode_batch([], base_offset=11, producer_id=5)
        )

    def test_formats_change_along_a_log(self) -> None:
        check(
            batch(0, magic=0) + batch(3, magic=1, compression=Compression.GZIP) + batch(6) + batch(9, magic=0)
        )


class TestTaking:
    def test_slices_follow_each_other(self, kernel: Any) -> None:
        chunk = kernel.decode_columns(batch(5, 10), "t", 0, 7)
        assert (chunk.handed, chunk.position, chunk.last_handed, chunk.remaining) == (0, 7, -1, 8)
        assert chunk.hand_out(3)[1:] == (0, 3)
        assert (chunk.handed, chunk.position, chunk.last_handed, chunk.remaining) == (3, 10, 9, 5)
        assert chunk.hand_out(100)[1:] == (3, 8)
        assert (chunk.handed, chunk.position, chunk.last_handed, chunk.remaining) == (8, 15, 14, 0)
        assert chunk.hand_out(100)[1:] == (8, 8)

    def test_nothing_is_handed_out_once_stopped_and_the_position_stays(self, kernel: Any) -> None:
        chunk = kernel.decode_columns(batch(5, 10), "t", 0, 5)
        chunk.hand_out(3)
        chunk.stop()
        assert chunk.hand_out(3)[1:] == (3, 3)
        assert (chunk.handed, chunk.position, chunk.last_handed, chunk.remaining) == (3, 8, 7, 0)

    def test_an_end_cuts_off_what_is_behind_it(self, kernel: Any) -> None:
        chunk = kernel.decode_columns(batch(5, 10), "t", 0, 5)
        chunk.end_at(9, 1000)
        assert (chunk.hand_out(100)[1:], chunk.position, chunk.nbytes) == ((0, 4), 9, 1000)


class TestDamage:
    def test_records_before_a_damaged_batch_come_first(self, kernel: Any) -> None:
        records = [NewRecord(1, b"k", b"v", (("n", b"h"),))] * 5
        damaged = bytearray(encode_batch(records, base_offset=3))
        damaged[-2] = 8  # the last header's value is longer than the batch
        chunk = kernel.decode_columns(batch(0) + damaged, "t", 0, 0, check_crcs=False)
        assert [row[4:] for row in rows_left(chunk)] == [(b"0", ()), (b"1", ()), (b"2", ())]
        with pytest.raises(CorruptRecordError):
            kernel.decode_columns(damaged, "t", 0, 3, check_crcs=False)

    def test_a_batch_larger_than_allowed_is_an_error(self, kernel: Any) -> None:
        data = encode_batch([NewRecord(1, None, bytes(1 << 20))], compression=Compression.ZSTD)
        with pytest.raises(MessageTooLargeError, match="max_decompressed"):
            kernel.decode_columns(data, "t", 0, 0, max_decompressed=1 << 19)

    @settings(deadline=None, max_examples=400)
    @given(st.data())
    def test_mutated_batches(self, data: st.DataObject) -> None:
        first = encode_batch(data.draw(st.lists(new_records, max_size=4)))
        mutated = bytearray(data.draw(st.sampled_from(BATCHES)))
        for _ in range(data.draw(st.integers(0, 4))):
            at = data.draw(st.integers(0, min(len(mutated), 150) - 1) | st.integers(0, len(mutated) - 1))
            mutated[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
        check(first + mutated if data.draw(st.booleans()) else bytes(mutated), check_crcs=False)

    @settings(deadline=None, max_examples=300)
    @given(st.binary(max_size=300), st.integers(0, 5), st.integers(-3, 40), st.integers(-INT64 - 1, INT64))
    def test_records_made_of_noise(self, noise: bytes, count: int, delta: int, timestamp: int) -> None:
        header = batch_header(
            noise, count=count, base_timestamp=timestamp, max_timestamp=5, last_offset_delta=delta
        )
        check(batch(0, 1) + header[:7] + b"\x01" + header[8:] + noise)
        check(header + noise)

    @pytest.mark.parametrize("written", [LEGACY_SAMPLES[4:], SAMPLES])
    def test_batches_cut_off_at_every_byte(self, written: list[NewRecord]) -> None:
        data = encode_batch(written, base_offset=3)
        for cut in range(61, min(len(data), 500)):
            sealed = bytearray(data[:cut])
            sealed[8:12] = (cut - 12).to_bytes(4, "big")
            check(bytes(sealed), check_crcs=False)

    def test_a_section_that_claims_more_than_it_holds_takes_no_memory(self) -> None:
        for count in (1 << 31, INT64, -1):
            results = [
                outcome_of(kernel.ColumnBuilder(frozenset()).add, bytes(1000), count, 0, 10, 0, None, 0)
                for kernel in KERNELS
            ]
            assert results[0] == results[1]
            assert results[0][0] is CorruptRecordError


LEFT_OUT: Final = [
    frozenset(("headers",)),
    frozenset(("key", "timestamp")),
    frozenset(("value", "timestampType", "headers")),
    OPTIONAL_COLUMNS,
]
BATCHES: Final = [
    encode_batch(SAMPLES if magic == 2 else LEGACY_SAMPLES, magic=magic, compression=codec, base_offset=3)
    for magic, codec in ALLOWED
] + [
    encode_batch([NewRecord(1, bytes(4), bytes(6))], producer_id=5, transactional=True, control=True),
    encode_batch(SAMPLES, timestamp_type=1, base_offset=INT64 - 20),
    encode_batch([], base_offset=8, producer_id=5),
    encode_batch([NewRecord(7, b"k", b"v", (("n", b"h"), ("é", None))), NewRecord(9, None, None)] * 3),
]

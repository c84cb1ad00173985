"""Decoding fetched bytes into messages: the limits of chunks, skipped batches, and errors."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import CorruptRecordError, MessageTooLargeError, UnsupportedCodecError
from pyklient.kernel import Message, encode_batch
from pyklient.protocol.records import (
    LOG_APPEND_TIME,
    AbortedTransactions,
    Compression,
    NewRecord,
    compress,
)
from pyklient.protocol.records.layout import BATCH_SIZE
from pyklient.protocol.records.message_set import encode_entry
from pyklient.serialization import decode_json, decode_text
from tests.kernel.samples import ALLOWED, LEGACY_SAMPLES, SAMPLES, batches_of


def batch(
    base_offset: int,
    count: int = 3,
    *,
    producer_id: int = -1,
    transactional: bool = False,
    compression: Compression = Compression.NONE,
    magic: int = 2,
) -> bytes:
    records = [NewRecord(1000, None, b"%d" % (base_offset + index)) for index in range(count)]
    return encode_batch(
        records,
        base_offset=base_offset,
        producer_id=producer_id,
        transactional=transactional,
        compression=compression,
        magic=magic,
    )


def marker(offset: int, producer_id: int, *, commit: bool) -> bytes:
    return encode_batch(
        [NewRecord(1000, b"\x00\x00\x00" + bytes((commit,)), bytes(6))],
        base_offset=offset,
        producer_id=producer_id,
        transactional=True,
        control=True,
    )


def emptied(offset: int, producer_id: int) -> bytes:
    """Return the batch that the log cleaner leaves of a marker, if it is the last batch of its producer."""
    return encode_batch([], base_offset=offset, producer_id=producer_id, transactional=True, control=True)


def read_all(
    kernel: Any, data: bytes, start: int = 0, aborted: AbortedTransactions | None = None
) -> list[Message]:
    """Return the messages of a response, decoded chunk by chunk, as a consumer does."""
    messages: list[Message] = []
    position = 0
    while True:
        chunk = kernel.decode(data, "t", 0, start, position=position, aborted=aborted)
        if not chunk.nbytes and not chunk.remaining:
            return messages
        messages += chunk
        position += chunk.nbytes
        start = chunk.next_offset


def offsets(messages: list[Message]) -> list[int]:
    return [message.offset for message in messages]


@settings(deadline=None)
@given(st.data(), st.sampled_from(ALLOWED), st.integers(0, 1 << 60))
def test_messages_hold_what_was_written(
    kernel: Any, data: st.DataObject, pair: tuple[int, Compression], base_offset: int
) -> None:
    magic, codec = pair
    records = data.draw(batches_of(magic))
    written = encode_batch(records, magic=magic, compression=codec, base_offset=base_offset)
    assert read_all(kernel, written) == [
        kernel.Message(
            "t",
            0,
            base_offset + index,
            record.timestamp_ms if magic else -1,
            0 if magic else -1,
            record.key,
            record.value,
            tuple(record.headers),
        )
        for index, record in enumerate(records)
    ]


@pytest.mark.parametrize(("magic", "codec"), ALLOWED)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do_and_may_go_away(kernel: Any, magic: int, codec: Compression, kind: type) -> None:
    data = bytearray(encode_batch(LEGACY_SAMPLES, magic=magic, compression=codec))
    messages = list(kernel.decode(kind(data), "t", 0, 0))
    data[:] = bytes(len(data))
    assert [(message.key, message.value) for message in messages] == [
        record[1:3] for record in LEGACY_SAMPLES
    ]


def test_log_append_time_is_every_messages_time(kernel: Any) -> None:
    data = encode_batch(SAMPLES, timestamp_type=LOG_APPEND_TIME)
    latest = max(record.timestamp_ms for record in SAMPLES)
    assert {(message.timestamp_ms, message.timestamp_type) for message in read_all(kernel, data)} == {
        (latest, LOG_APPEND_TIME)
    }


class TestPlaces:
    @pytest.mark.parametrize(("magic", "codec"), ALLOWED)
    def test_reading_starts_in_the_middle_of_a_batch(
        self, kernel: Any, magic: int, codec: Compression
    ) -> None:
        data = b"".join(batch(at, compression=codec, magic=magic) for at in (10, 13, 16))
        for start in range(9, 20):
            assert offsets(read_all(kernel, data, start)) == list(range(max(10, start), 19))

    def test_headers_stay_with_their_records_when_reading_starts_in_the_middle(self, kernel: Any) -> None:
        data = encode_batch([NewRecord(1, None, None, ((f"h{index}", b""),)) for index in range(4)])
        assert [message.headers[0][0] for message in read_all(kernel, data, 2)] == ["h2", "h3"]

    def test_a_chunk_ends_with_a_whole_batch_once_it_holds_enough(self, kernel: Any) -> None:
        size = 600 if kernel.name == "python" else 6_000  # the Python kernel makes all messages at once
        data = batch(0, size) + batch(size, size) + batch(2 * size, size)
        chunk = kernel.decode(data, "t", 0, 0)
        assert (chunk.remaining, chunk.next_offset) == (2 * size, 2 * size)
        assert chunk.nbytes < len(data)
        rest = kernel.decode(data, "t", 0, chunk.next_offset, position=chunk.nbytes)
        assert (rest.remaining, rest.next_offset) == (size, 3 * size)
        assert chunk.nbytes + rest.nbytes == len(data)

    def test_a_chunk_ends_earlier_if_decoders_make_all_its_messages_at_once(self, kernel: Any) -> None:
        data = batch(0, 600) + batch(600, 600) + batch(1200, 600)
        chunk = kernel.decode(data, "t", 0, 0, value_decoder=bytes)
        assert (chunk.remaining, chunk.next_offset) == (1200, 1200)

    def test_reading_may_begin_in_any_batch_of_a_chunk(self, kernel: Any) -> None:
        data = batch(0, 5) + batch(5, 20_000) + batch(20_005, 5)
        for start, expected in ((0, [20_005, 5]), (6, [19_999, 5]), (20_003, [7]), (20_006, [4])):
            sizes, position, at = [], 0, start
            while (chunk := kernel.decode(data, "t", 0, at, position=position)).nbytes:
                sizes.append(chunk.remaining)
                assert offsets(list(chunk)) == list(range(at, chunk.next_offset))
                position, at = position + chunk.nbytes, chunk.next_offset
            assert sizes == expected

    def test_a_chunk_of_batches_that_compress_well_stays_small(self, kernel: Any) -> None:
        large = encode_batch([NewRecord(1, None, bytes(600 << 10))], compression=Compression.ZSTD)
        data = b"".join(large[:7] + bytes((index,)) + large[8:] for index in range(20))
        chunk = kernel.decode(data, "t", 0, 0)
        assert chunk.remaining == 2
        assert offsets(read_all(kernel, data)) == list(range(20))

    def test_a_chunk_has_records_of_format_2_or_of_older_formats(self, kernel: Any) -> None:
        data = (
            batch(0, magic=1) + batch(3, magic=0) + batch(6, magic=2) + batch(9, magic=2) + batch(12, magic=1)
        )
        counts, position, at = [], 0, 0
        while (chunk := kernel.decode(data, "t", 0, at, position=position)).nbytes:
            counts.append(len(list(chunk)))
            position, at = position + chunk.nbytes, chunk.next_offset
        assert counts == [6, 6, 3]

    def test_bytes_after_the_end_are_none(self, kernel: Any) -> None:
        chunk = kernel.decode(b"", "t", 0, 42, position=100)
        assert (chunk.next_offset, chunk.nbytes, chunk.remaining) == (42, 0, 0)
        columns = kernel.decode_columns(b"", "t", 0, 42, position=100)
        assert (columns.next_offset, columns.nbytes, columns.remaining) == (42, 0, 0)

    def test_an_incomplete_batch_at_the_end_is_left(self, kernel: Any) -> None:
        """Row 48 of the classic consumer: the rest is fetched again, whole."""
        whole, more = batch(0), batch(3)
        for cut in range(len(more)):
            chunk = kernel.decode(whole + more[:cut], "t", 0, 0)
            assert (chunk.nbytes, chunk.next_offset) == (len(whole), 3)
        chunk = kernel.decode(more[:-1], "t", 0, 3)
        assert (chunk.nbytes, chunk.remaining, chunk.next_offset) == (0, 0, 3)

    def test_empty_batches_move_the_offset(self, kernel: Any) -> None:
        data = bytearray(encode_batch([], base_offset=3, producer_id=9))
        chunk = kernel.decode(batch(0) + bytes(data) + batch(8), "t", 0, 0)
        assert offsets(chunk.hand_out(10)) == [0, 1, 2, 8, 9, 10]
        chunk = kernel.decode(bytes(data), "t", 0, 0)
        assert (chunk.next_offset, chunk.nbytes, chunk.position) == (4, len(data), 4)

    def test_nothing_at_all_is_an_empty_chunk(self, kernel: Any) -> None:
        chunk = kernel.decode(b"", "t", 0, 42)
        assert (chunk.next_offset, chunk.nbytes, chunk.remaining, chunk.position) == (42, 0, 0, 42)

    def test_formats_change_along_a_log(self, kernel: Any) -> None:
        data = batch(0, magic=0) + batch(3, magic=1, compression=Compression.GZIP) + batch(6, magic=2)
        assert offsets(read_all(kernel, data)) == list(range(9))


class TestTransactions:
    def test_control_batches_are_passed_over(self, kernel: Any) -> None:
        data = batch(0) + marker(3, 7, commit=True) + batch(4) + marker(7, 7, commit=False)
        chunk = kernel.decode(data, "t", 0, 0)
        assert offsets(chunk.hand_out(100)) == [0, 1, 2, 4, 5, 6]
        assert (chunk.next_offset, chunk.position) == (8, 8)

    def test_aborted_batches_are_passed_over_until_their_marker(self, kernel: Any) -> None:
        data = b"".join(
            (
                batch(0, producer_id=7, transactional=True),
                batch(3, producer_id=8, transactional=True),
                batch(6),
                marker(9, 7, commit=False),
                batch(10, producer_id=7, transactional=True),
                marker(13, 8, commit=True),
                marker(14, 7, commit=True),
            )
        )
        assert offsets(read_all(kernel, data, aborted=AbortedTransactions([(7, 0)]))) == [
            3,
            4,
            5,
            6,
            7,
            8,
            10,
            11,
            12,
        ]
        assert len(read_all(kernel, data)) == 12

    def test_an_abort_is_remembered_from_chunk_to_chunk(self, kernel: Any) -> None:
        data = b"".join(
            (
                batch(0, 12_000),
                batch(12_000, 3, producer_id=7, transactional=True),
                marker(12_003, 7, commit=False),
                batch(12_004, 12_000, producer_id=7, transactional=True),
                batch(24_004, 3, producer_id=7, transactional=True),
                marker(24_007, 7, commit=False),
                batch(24_008, 3, producer_id=7, transactional=True),
            )
        )
        aborted = AbortedTransactions([(7, 24_004), (7, 12_000)])
        read = offsets(read_all(kernel, data, aborted=aborted))
        assert read == [*range(12_000), *range(12_004, 24_004), *range(24_008, 24_011)]

    def test_what_was_passed_can_be_read_again(self, kernel: Any) -> None:
        data = b"".join(
            (
                batch(0, producer_id=7, transactional=True),
                marker(3, 7, commit=False),
                batch(4, producer_id=7, transactional=True),
                marker(7, 7, commit=True),
                batch(8, producer_id=7, transactional=True),
                marker(11, 7, commit=False),
            )
        )
        aborted = AbortedTransactions([(7, 8), (7, 0)])
        for _ in range(3):
            assert offsets(read_all(kernel, data, aborted=aborted)) == [4, 5, 6]

    def test_the_marker_of_a_later_transaction_does_not_hide_what_was_committed_before_it(
        self, kernel: Any
    ) -> None:
        # The last transaction was aborted before it had a record, so the response does not list it.
        data = b"".join(
            (
                batch(0, producer_id=7, transactional=True),
                marker(3, 7, commit=False),
                batch(4, producer_id=7, transactional=True),
                marker(7, 7, commit=True),
                marker(8, 7, commit=False),
            )
        )
        aborted = AbortedTransactions([(7, 0)])
        assert offsets(read_all(kernel, data, aborted=aborted)) == [4, 5, 6]
        assert offsets(read_all(kernel, data, 4, aborted)) == [4, 5, 6]

    def test_a_transaction_of_one_record_is_hidden_too(self, kernel: Any) -> None:
        data = b"".join(
            (
                batch(0),
                batch(3, 1, producer_id=7, transactional=True),
                marker(4, 7, commit=False),
                batch(5, 1, producer_id=7, transactional=True),
                marker(6, 7, commit=True),
            )
        )
        assert offsets(read_all(kernel, data, aborted=AbortedTransactions([(7, 3)]))) == [0, 1, 2, 5]

    @pytest.mark.parametrize(("first", "committed"), [(1, [10, 11, 12]), (5, [1, 2, 3, 10, 11, 12])])
    def test_a_control_batch_that_the_log_cleaner_has_emptied_ends_no_transaction(
        self, kernel: Any, first: int, committed: list[int]
    ) -> None:
        data = b"".join(
            (
                emptied(0, 7),
                batch(1, producer_id=7, transactional=True),
                emptied(4, 7),
                batch(5, producer_id=7, transactional=True),
                marker(8, 7, commit=False),
                emptied(9, 7),
                batch(10, producer_id=7, transactional=True),
                emptied(13, 8),
            )
        )
        read = read_all(kernel, data, aborted=AbortedTransactions([(7, first)]))
        assert offsets(read) == committed

    def test_a_control_batch_that_says_nothing_is_an_error_with_its_own_offset(self, kernel: Any) -> None:
        data = batch(0) + batch(3, producer_id=7, transactional=True) + marker(6, 7, commit=False)
        for key in (None, b"\x00"):
            bad = encode_batch([NewRecord(1000, key, b"")], base_offset=7, control=True, transactional=True)
            aborted = AbortedTransactions([(7, 3)])
            first = kernel.decode(data + bad, "t", 0, 0, aborted=aborted)
            assert (first.remaining, first.next_offset) == (3, 7)
            with pytest.raises(CorruptRecordError, match="the control batch at offset 7 has no type"):
                kernel.decode(data + bad, "t", 0, 7, position=first.nbytes, aborted=aborted)

    def test_a_control_batch_that_cannot_be_parsed_is_an_error_with_its_own_offset(self, kernel: Any) -> None:
        damaged = bytearray(marker(7, 7, commit=False))
        damaged[BATCH_SIZE] = 1  # the record's length: -1
        with pytest.raises(
            CorruptRecordError, match="the control batch at offset 7 cannot be read: a record has a negative"
        ):
            kernel.decode(damaged, "t", 0, 3, check_crcs=False, aborted=AbortedTransactions([(7, 3)]))

    def test_what_is_passed_over_before_a_bad_batch_is_left_behind(self, kernel: Any) -> None:
        data = marker(3, 7, commit=False) + batch(4, producer_id=7, transactional=True)
        damaged = bytearray(batch(7))
        damaged[-1] ^= 1
        passed = kernel.decode(data + damaged, "t", 0, 0, aborted=AbortedTransactions([(7, 4)]))
        assert (passed.remaining, passed.next_offset, passed.nbytes) == (0, 7, len(data))
        with pytest.raises(CorruptRecordError, match="offset 7"):
            kernel.decode(data + damaged, "t", 0, 7, position=passed.nbytes)

    def test_a_transaction_that_begins_later_does_not_hide_earlier_ones(self, kernel: Any) -> None:
        data = batch(0, producer_id=7, transactional=True) + batch(3, producer_id=7, transactional=True)
        assert offsets(read_all(kernel, data, aborted=AbortedTransactions([(7, 3)]))) == [0, 1, 2]

    def test_what_is_not_transactional_is_never_hidden(self, kernel: Any) -> None:
        assert len(read_all(kernel, batch(0, producer_id=7), aborted=AbortedTransactions([(7, 0)]))) == 3

    def test_reading_may_start_behind_the_first_offset_of_an_aborted_transaction(self, kernel: Any) -> None:
        data = batch(10, producer_id=7, transactional=True) + marker(13, 7, commit=False) + batch(14)
        assert offsets(read_all(kernel, data, 11, AbortedTransactions([(7, 2)]))) == [14, 15, 16]


class TestDecoders:
    def test_keys_and_values_are_what_decoders_make_of_them(self, kernel: Any) -> None:
        data = encode_batch([NewRecord(1, b"k", b'{"a": 1}'), NewRecord(1, None, None)])
        chunk = kernel.decode(data, "t", 0, 0, key_decoder=decode_text, value_decoder=decode_json)
        assert [(message.key, message.value) for message in chunk] == [("k", {"a": 1}), (None, None)]

    @pytest.mark.parametrize("what", ["key", "value"])
    def test_messages_before_the_one_that_fails_come_first(self, kernel: Any, what: str) -> None:
        good = NewRecord(1, b"{}", b"{}")
        bad = NewRecord(1, b"{", b"{}") if what == "key" else NewRecord(1, b"{}", b"{")
        data = encode_batch([good, good, bad, good], base_offset=5)
        decoders: dict[str, Any] = {f"{what}_decoder": decode_json}
        chunk = kernel.decode(data, "t", 0, 0, **decoders)
        assert offsets(list(chunk)) == [5, 6]
        assert (chunk.next_offset, chunk.nbytes) == (7, 0)
        with pytest.raises(ValueError, match="Expecting property name") as failure:
            kernel.decode(data, "t", 0, chunk.next_offset, **decoders)
        assert failure.value.__notes__ == [f"while decoding the {what} of t-0 at offset 7"]
        assert offsets(list(kernel.decode(data, "t", 0, 8, **decoders))) == [8]

    def test_a_failure_in_a_later_batch_leaves_the_earlier_ones(self, kernel: Any) -> None:
        first = encode_batch([NewRecord(1, None, b"{}")] * 2)
        second = encode_batch([NewRecord(1, None, b"{"), NewRecord(1, None, b"{}")], base_offset=2)
        chunk = kernel.decode(first + second, "t", 0, 0, value_decoder=decode_json)
        assert (offsets(list(chunk)), chunk.next_offset, chunk.nbytes) == ([0, 1], 2, len(first))
        with pytest.raises(ValueError, match="Expecting"):
            kernel.decode(first + second, "t", 0, 2, position=chunk.nbytes, value_decoder=decode_json)

    def test_a_decoder_that_raises_stop_iteration_loses_nothing(self, kernel: Any) -> None:
        def stop(data: bytes | None) -> None:
            raise StopIteration

        with pytest.raises(RuntimeError, match="StopIteration"):
            kernel.decode(batch(0), "t", 0, 0, value_decoder=stop)

    def test_decoders_see_only_what_is_handed_out(self, kernel: Any) -> None:
        seen: list[bytes | None] = []
        kernel.decode(batch(0, 5), "t", 0, 3, value_decoder=seen.append)
        assert seen == [b"3", b"4"]


class TestDamage:
    def test_messages_before_a_damaged_batch_come_first(self, kernel: Any) -> None:
        data = bytearray(batch(0) + batch(3))
        data[-1] ^= 1
        chunk = kernel.decode(data, "t", 0, 0)
        assert (offsets(list(chunk)), chunk.next_offset) == ([0, 1, 2], 3)
        with pytest.raises(CorruptRecordError, match="the batch at offset 3 does not match"):
            kernel.decode(data, "t", 0, 3, position=chunk.nbytes)

    def test_checksums_can_be_left_alone(self, kernel: Any) -> None:
        data = bytearray(batch(0))
        data[17] ^= 1
        with pytest.raises(CorruptRecordError, match="checksum"):
            kernel.decode(data, "t", 0, 0)
        assert kernel.decode(data, "t", 0, 0, check_crcs=False).remaining == 3

    def test_a_batch_that_is_not_wanted_is_not_looked_at(self, kernel: Any) -> None:
        data = bytearray(batch(0) + batch(3))
        data[70] ^= 1
        assert offsets(read_all(kernel, bytes(data), 3)) == [3, 4, 5]

    def test_an_unknown_codec_is_an_error_of_its_own(self, kernel: Any) -> None:
        data = bytearray(batch(0))
        data[22] |= 6
        with pytest.raises(UnsupportedCodecError, match="codec 6 is not known"):
            kernel.decode(data, "t", 0, 0, check_crcs=False)

    def test_a_batch_larger_than_allowed_is_an_error(self, kernel: Any) -> None:
        data = encode_batch([NewRecord(1, None, bytes(1 << 20))], compression=Compression.ZSTD)
        with pytest.raises(MessageTooLargeError, match="max_decompressed"):
            kernel.decode(data, "t", 0, 0, max_decompressed=1 << 19)
        assert kernel.decode(data, "t", 0, 0, max_decompressed=2 << 20).remaining == 1

    @pytest.mark.parametrize("inner", [(0, 0), (5, 4), (-3, 1)])
    def test_offsets_of_a_wrapper_must_rise(self, kernel: Any, inner: tuple[int, int]) -> None:
        entries = b"".join(encode_entry(1, offset & (1 << 63) - 1, 1, None, b"") for offset in inner)
        wrapper = encode_entry(1, 50, 1, None, compress(Compression.GZIP, entries, 1), Compression.GZIP)
        with pytest.raises(CorruptRecordError):
            kernel.decode(wrapper, "t", 0, 0)

    def test_header_names_that_are_not_utf_8_do_not_make_a_record_unreadable(self, kernel: Any) -> None:
        data = bytearray(encode_batch([NewRecord(1, None, None, (("name", b"v"),))]))
        data[data.index(b"name")] = 0xFF
        [message] = kernel.decode(data, "t", 0, 0, check_crcs=False)
        assert message.headers == (("�ame", b"v"),)

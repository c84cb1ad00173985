"""Encoding and reading whole batches: header facts, order, gaps, ends of buffers, and errors."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import CorruptRecordError, UnsupportedCodecError, UnsupportedVersionError
from pyklient.kernel import control_type, encode_batch, read_records
from pyklient.protocol.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    Compression,
    DecodedRecord,
    NewRecord,
    batch_end,
    batch_header,
    iter_batches,
)
from tests.kernel.samples import ALLOWED, LEGACY_SAMPLES, SAMPLES, batches_of, new_records

pytestmark = pytest.mark.both_kernels


@settings(deadline=None)
@given(st.data(), st.sampled_from(ALLOWED), st.integers(0, 1 << 60))
def test_what_is_written_is_read_back(
    data: st.DataObject, pair: tuple[int, Compression], base_offset: int
) -> None:
    magic, codec = pair
    records = data.draw(batches_of(magic))
    written = encode_batch(records, magic=magic, compression=codec, base_offset=base_offset)
    found: list[DecodedRecord] = []
    for batch in iter_batches(written):
        batch.verify()
        assert (batch.magic, batch.compression) == pair
        assert (batch.base_offset, batch.next_offset) == (
            base_offset + len(found),
            base_offset + len(found) + batch.count,
        )
        found += read_records(batch)
    assert [record.offset for record in found] == list(range(base_offset, base_offset + len(records)))
    assert [NewRecord(each.timestamp_ms, each.key, each.value, each.headers) for each in found] == [
        record._replace(timestamp_ms=record.timestamp_ms if magic else -1) for record in records
    ]


@settings(deadline=None)
@given(st.lists(new_records, min_size=1, max_size=10), st.data())
def test_offsets_with_gaps_survive(records: list[NewRecord], data: st.DataObject) -> None:
    steps = data.draw(st.lists(st.integers(1, 1 << 20), min_size=len(records), max_size=len(records)))
    deltas = [sum(steps[: index + 1]) - 1 for index in range(len(steps))]
    [batch] = iter_batches(encode_batch(records, base_offset=100, offset_deltas=deltas))
    assert [record.offset for record in read_records(batch)] == [100 + delta for delta in deltas]
    assert batch.next_offset == 101 + deltas[-1]


def test_a_compacted_batch_keeps_its_base_and_its_end(kernel: Any) -> None:
    payload = kernel.encode_records([(7, None, b"kept", ())], 7, [4])
    header = batch_header(
        payload, count=1, base_timestamp=7, max_timestamp=9, base_offset=10, last_offset_delta=8
    )
    [batch] = iter_batches(header + payload)
    batch.verify()
    assert (batch.base_offset, batch.last_offset, batch.count) == (10, 18, 1)
    assert [record.offset for record in read_records(batch)] == [14]


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_facts_of_a_header(magic: int) -> None:
    records = LEGACY_SAMPLES[:2]
    written = encode_batch(records, magic=magic, compression=Compression.GZIP, base_offset=5)
    [batch] = iter_batches(memoryview(written))
    assert (batch.size, bytes(batch.buffer), batch.magic) == (len(written), written, magic)
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.count) == (5, 6, 7, 2)
    assert batch.timestamp_type == (CREATE_TIME if magic else NO_TIMESTAMP_TYPE)
    assert batch.max_timestamp == (records[0].timestamp_ms if magic else -1)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (-1, -1, -1)
    assert (batch.is_control, batch.is_transactional, batch.partition_leader_epoch) == (False, False, -1)
    assert repr(batch) == f"<RecordBatch format {magic}, last offset 6, {len(written)} bytes, attributes 0x1>"


def test_producer_facts_of_format_2() -> None:
    written = encode_batch(
        SAMPLES,
        producer_id=77,
        producer_epoch=2,
        base_sequence=13,
        transactional=True,
        partition_leader_epoch=4,
        timestamp_type=LOG_APPEND_TIME,
    )
    [batch] = iter_batches(written)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (77, 2, 13)
    assert (batch.is_transactional, batch.is_control, batch.partition_leader_epoch) == (True, False, 4)
    assert batch.timestamp_type == LOG_APPEND_TIME
    assert {record.timestamp_ms for record in read_records(batch)} == {batch.max_timestamp}
    assert {record.timestamp_type for record in read_records(batch)} == {LOG_APPEND_TIME}


def test_a_control_batch_says_what_it_is() -> None:
    for kind, name in enumerate((b"\x00\x00\x00\x00", b"\x00\x00\x00\x01")):
        [batch] = iter_batches(
            encode_batch([NewRecord(1, name, b"\x00\x00\x00\x00\x00\x07")], control=True, transactional=True)
        )
        assert (batch.is_control, control_type(batch.buffer)) == (True, kind)
    [batch] = iter_batches(encode_batch([], control=True, transactional=True))
    assert (batch.is_control, control_type(batch.buffer)) == (True, None)
    [batch] = iter_batches(encode_batch([NewRecord(1, b"\x00", b"")], control=True))
    with pytest.raises(CorruptRecordError, match="has no type"):
        control_type(batch.buffer)


def test_formats_may_follow_each_other_in_one_buffer() -> None:
    written = b"".join(
        encode_batch(LEGACY_SAMPLES, magic=magic, base_offset=magic * 10, compression=codec)
        for magic, codec in ALLOWED
    )
    assert b"".join(batch.buffer for batch in iter_batches(written)) == written


@pytest.mark.parametrize("magic", [0, 1, 2])
def test_an_incomplete_batch_at_the_end_ends_the_iteration(magic: int) -> None:
    whole = encode_batch(LEGACY_SAMPLES[:1], magic=magic)
    more = encode_batch(LEGACY_SAMPLES[:1], magic=magic, base_offset=1)
    for cut in range(len(more)):
        assert [batch.last_offset for batch in iter_batches(whole + more[:cut])] == [0]
    assert [batch.last_offset for batch in iter_batches(whole + more)] == [0, 1]


def test_the_oversized_entry_that_brokers_pad_with_is_an_incomplete_tail() -> None:
    """A broker that has converted all records fills the response with an entry of endless length at offset
    -1."""
    padding = (-1).to_bytes(8, "big", signed=True) + (1 << 20).to_bytes(4, "big") + bytes(500)
    assert list(iter_batches(padding)) == []
    assert batch_end(memoryview(padding), 0) == 0
    assert len(list(iter_batches(encode_batch(SAMPLES) + padding))) == 1


@pytest.mark.parametrize(
    ("at", "forged"),
    [
        (8, b"\xff\xff\xff\xff"),
        (8, b"\x80\x00\x00\x00"),
        (8, b"\x00\x00\x00\x30"),
        (16, b"\x03"),
        (16, b"\xff"),
    ],
)
def test_what_cannot_be_a_batch_is_corrupt(at: int, forged: bytes) -> None:
    data = bytearray(encode_batch(SAMPLES))
    data[at : at + len(forged)] = forged
    with pytest.raises(CorruptRecordError, match="are not a batch"):
        list(iter_batches(data))


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("compression", [Compression.NONE, Compression.GZIP])
def test_a_flipped_bit_breaks_the_checksum(magic: int, compression: Compression) -> None:
    written = encode_batch(LEGACY_SAMPLES[:1], magic=magic, compression=compression, base_offset=3)
    covered_from = 21 if magic == 2 else 17
    for at in range(covered_from, len(written)):
        data = bytearray(written)
        data[at] ^= 0x10
        [batch] = iter_batches(data)
        with pytest.raises(CorruptRecordError, match="at offset 3 does not match its bytes"):
            batch.verify()


def test_old_formats_refuse_what_they_cannot_carry() -> None:
    with pytest.raises(UnsupportedVersionError, match="record format 1 cannot store headers"):
        encode_batch(SAMPLES, magic=1)
    with pytest.raises(UnsupportedVersionError, match="cannot store producer ids"):
        encode_batch(LEGACY_SAMPLES, magic=0, producer_id=5)
    with pytest.raises(UnsupportedVersionError, match="cannot store producer ids or transactions"):
        encode_batch(LEGACY_SAMPLES, magic=1, transactional=True)


def test_no_records_make_an_empty_batch_or_an_empty_set() -> None:
    [batch] = iter_batches(encode_batch([], compression=Compression.ZSTD))
    batch.verify()
    assert (batch.count, batch.compression, read_records(batch)) == (0, Compression.NONE, [])
    assert encode_batch([], magic=1, compression=Compression.GZIP) == b""


@pytest.mark.parametrize(("magic", "number"), [(2, 5), (2, 7), (0, 4), (1, 4), (1, 6)])
def test_an_unknown_codec_has_an_error_of_its_own(magic: int, number: int) -> None:
    data = bytearray(encode_batch(LEGACY_SAMPLES[:1], magic=magic))
    data[22 if magic == 2 else 17] |= number
    [batch] = iter_batches(data)
    with pytest.raises(UnsupportedCodecError):
        _ = batch.compression
    with pytest.raises(UnsupportedCodecError):
        read_records(batch)

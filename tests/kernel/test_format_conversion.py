"""Assigning offsets to batches, and converting batches between formats."""

import pytest

from pyklient.errors import UnsupportedCodecError
from pyklient.kernel import convert, encode_batch, read_records
from pyklient.protocol.records import (
    LOG_APPEND_TIME,
    Compression,
    NewRecord,
    assign_offsets,
    iter_batches,
)
from tests.kernel.samples import ALLOWED, LEGACY_SAMPLES, SAMPLES

pytestmark = pytest.mark.both_kernels


class TestAssignOffsets:
    @pytest.mark.parametrize("codec", list(Compression))
    def test_a_batch_is_numbered_in_place_and_its_checksum_still_holds(self, codec: Compression) -> None:
        written = encode_batch(SAMPLES, compression=codec, producer_id=4, producer_epoch=0, base_sequence=0)
        data = bytearray(written)
        latest = max(record.timestamp_ms for record in SAMPLES)
        assert assign_offsets(data, 1 << 40, leader_epoch=9) == ((1 << 40) + len(SAMPLES), latest)
        assert data[8:12] + data[16:] == written[8:12] + written[16:]
        [batch] = iter_batches(data)
        batch.verify()
        assert (batch.base_offset, batch.partition_leader_epoch) == (1 << 40, 9)
        assert [record.offset - (1 << 40) for record in read_records(batch)] == list(range(len(SAMPLES)))

    def test_batches_follow_each_other(self) -> None:
        data = bytearray(encode_batch(SAMPLES[:2]) + encode_batch(SAMPLES[:3]))
        assert assign_offsets(memoryview(data), 7)[0] == 12
        assert [(batch.base_offset, batch.last_offset) for batch in iter_batches(data)] == [(7, 8), (9, 11)]

    def test_the_brokers_time_replaces_the_producers(self) -> None:
        data = bytearray(encode_batch(SAMPLES))
        assert assign_offsets(data, 0, log_append_time_ms=1234) == (len(SAMPLES), 1234)
        [batch] = iter_batches(data)
        batch.verify()
        assert (batch.timestamp_type, batch.max_timestamp) == (LOG_APPEND_TIME, 1234)
        assert {record.timestamp_ms for record in read_records(batch)} == {1234}

    def test_older_formats_cannot_be_numbered_in_place(self) -> None:
        with pytest.raises(ValueError, match="in place to a batch of format 1"):
            assign_offsets(bytearray(encode_batch(LEGACY_SAMPLES, magic=1)), 0)


class TestConvert:
    @pytest.mark.parametrize(("magic", "codec"), ALLOWED)
    def test_old_formats_become_one_batch_numbered_from_0(self, magic: int, codec: Compression) -> None:
        data = encode_batch(LEGACY_SAMPLES, magic=magic, compression=codec, base_offset=900) * 2
        [batch, *others] = iter_batches(convert(data, 2))
        if magic == 2:
            assert len(others) == 1
            return
        batch.verify()
        assert (others, batch.magic, batch.base_offset, batch.compression) == ([], 2, 0, codec)
        assert [record.offset for record in read_records(batch)] == list(range(2 * len(LEGACY_SAMPLES)))
        assert [(record.timestamp_ms, record.key, record.value) for record in read_records(batch)] == [
            (record.timestamp_ms if magic else -1, record.key, record.value) for record in LEGACY_SAMPLES * 2
        ]

    @pytest.mark.parametrize("magic", [0, 1])
    def test_what_is_old_enough_passes_as_it_is(self, magic: int) -> None:
        old = encode_batch(LEGACY_SAMPLES, magic=0, compression=Compression.GZIP)
        new = encode_batch(SAMPLES, base_offset=50)
        assert convert(old + new, magic).startswith(old)

    def test_offsets_survive_gaps(self) -> None:
        data = encode_batch(SAMPLES[:2], base_offset=10, offset_deltas=[3, 9], compression=Compression.LZ4)
        [batch] = iter_batches(convert(data, 1))
        assert [record.offset for record in read_records(batch)] == [13, 19]

    def test_what_lies_below_the_wanted_offset_is_left_out_where_that_is_easy(self) -> None:
        plain = encode_batch(SAMPLES, base_offset=10)
        packed = encode_batch(SAMPLES, base_offset=20, compression=Compression.GZIP)
        offsets = [
            record.offset
            for batch in iter_batches(convert(plain + packed, 1, from_offset=12))
            for record in read_records(batch)
        ]
        assert offsets == [12, 13, 14, 15, *range(20, 26)]
        assert convert(plain, 0, from_offset=16) == b""
        [wrapper] = iter_batches(convert(packed, 0, from_offset=24))
        assert wrapper.base_offset == 20

    def test_control_batches_and_empty_ones_vanish(self) -> None:
        marker = encode_batch([NewRecord(1, bytes(4), bytes(6))], control=True, transactional=True)
        assert convert(marker + encode_batch([], base_offset=1), 1) == b""

    def test_log_append_time_stays_and_format_0_forgets_it(self) -> None:
        data = encode_batch(SAMPLES, timestamp_type=LOG_APPEND_TIME, compression=Compression.GZIP)
        [batch] = iter_batches(convert(data, 1))
        assert {record.timestamp_type for record in read_records(batch)} == {LOG_APPEND_TIME}
        [batch] = iter_batches(convert(data, 0))
        assert {record.timestamp_ms for record in read_records(batch)} == {-1}

    def test_zstd_cannot_be_said_in_old_formats(self) -> None:
        with pytest.raises(UnsupportedCodecError):
            convert(encode_batch(SAMPLES, compression=Compression.ZSTD), 1)

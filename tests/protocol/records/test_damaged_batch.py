"""The offsets of batches that cannot be decoded. A real Kafka log has no other batches at these offsets."""

from collections.abc import Callable

import pytest

from pyklient.kernel import encode_batch
from pyklient.protocol.records import Compression, NewRecord
from pyklient.protocol.records.damaged_batch import damaged_offsets
from pyklient.protocol.records.layout import ATTRIBUTES_AT, BATCH_SIZE, COUNT_AT, MAGIC_AT
from pyklient.protocol.records.message_set import encode_set

_LAST_DELTA_AT = 23


def batch(base: int, count: int) -> bytes:
    return encode_batch([NewRecord(0, None, b"v" * 9, ()) for _ in range(count)], base_offset=base)


def old(magic: int, *offsets: int, compression: Compression = Compression.NONE) -> bytes:
    return encode_set([(0, None, b"v" * 9)] * len(offsets), offsets, magic, compression)


def flipped(data: bytes, at: int, bits: int = 1) -> bytes:
    changed = bytearray(data)
    changed[at] ^= bits
    return bytes(changed)


def found(*batches: bytes, position: int = 10, end: int | None = None) -> tuple[int, int] | None:
    return damaged_offsets(memoryview(b"".join(batches)), 0, position, end)


def test_a_damaged_record_takes_its_whole_batch_with_it_and_nothing_else() -> None:
    bad = flipped(batch(10, 5), BATCH_SIZE + 3)
    assert found(bad) == (10, 15)
    assert found(bad, batch(15, 2)) == (10, 15)
    assert found(bad, position=12) == (12, 15), "the records before were handed out"
    assert found(batch(10, 5)) == (10, 15), "a batch whose records cannot be decoded is intact"


def test_offsets_before_the_batch_are_not_counted() -> None:
    assert found(flipped(batch(14, 2), -1)) == (14, 16)
    assert found(flipped(batch(14, 2), -1), batch(16, 1)) == (14, 16)


@pytest.mark.parametrize("at", [_LAST_DELTA_AT, _LAST_DELTA_AT + 3, COUNT_AT + 3])
def test_the_batch_that_follows_bounds_a_header_that_does_not_fit_together(at: int) -> None:
    bad = flipped(batch(10, 5), at, 2)
    assert found(bad, batch(15, 2)) == (10, 15)
    assert found(bad) is None, "nobody knows where it ends"
    assert found(bad, flipped(batch(15, 2), -1)) is None, "the batch that follows may say anything too"


@pytest.mark.parametrize(
    "change",
    [lambda data: flipped(data, 0, 0x7F), lambda data: flipped(data, 0, 0x80), lambda data: flipped(data, 4)],
    ids=["after all offsets", "negative", "far away"],
)
def test_a_base_offset_out_of_the_log_says_nothing(change: Callable[[bytes], bytes]) -> None:
    assert found(change(flipped(batch(10, 5), -1)), end=15) is None


def test_an_end_after_that_of_the_log_says_nothing() -> None:
    bad = flipped(batch(10, 5), -1)
    assert found(bad, end=15) == (10, 15)
    assert found(bad, end=14) is None


def test_a_header_that_says_too_much_adds_nothing_to_what_was_read_before() -> None:
    bad = flipped(batch(10, 5), _LAST_DELTA_AT + 3, 8)
    assert found(bad, batch(15, 2), position=15) == (15, 15)
    assert found(bad, batch(15, 2), position=16) == (16, 16)


def test_bytes_that_are_no_batch_have_no_end() -> None:
    assert found(flipped(batch(10, 5), MAGIC_AT, 0x40)) is None
    assert found(batch(10, 5)[:-1]) is None
    assert found(b"") is None


@pytest.mark.parametrize("magic", [0, 1])
def test_entries_of_the_old_formats_have_the_offset_in_front_of_what_the_checksum_covers(magic: int) -> None:
    assert found(flipped(old(magic, 10), -1)) == (10, 11)
    assert found(flipped(old(magic, 12), -1)) == (12, 13)
    assert found(flipped(old(magic, 12), -1), old(magic, 13)) == (12, 13)
    wrapper = old(magic, 10, 11, 12, compression=Compression.GZIP)
    assert found(flipped(wrapper, -1)) == (10, 13)
    assert found(flipped(wrapper, -1), old(magic, 13)) == (10, 13)
    assert found(flipped(wrapper, ATTRIBUTES_AT)) == (10, 13)

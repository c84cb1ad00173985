"""Small compressed batches, which the compiled kernel reads in the same call as others: what must be left
out, what is damaged, and what would need too much memory."""

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pyklient.errors import CorruptRecordError, MessageTooLargeError, UnsupportedCodecError
from pyklient.kernel import encode_batch
from pyklient.kernel.python_kernel import crc32c
from pyklient.protocol.records import AbortedTransactions, Compression, NewRecord
from pyklient.protocol.records.layout import ATTRIBUTES_AT, BATCH_SIZE, CRC_AT

MIB = 1 << 20
CODECS = list(Compression)[1:]
TRANSACTION: dict[str, Any] = {"producer_epoch": 0, "transactional": True}

ReadAll = Callable[..., tuple[list[int], Exception | None]]


def batch(offset: int, codec: Compression, value: bytes = b"value", **facts: Any) -> bytes:
    return encode_batch([NewRecord(1000, None, value)], base_offset=offset, compression=codec, **facts)


def marker(offset: int, producer_id: int, key: bytes | None) -> bytes:
    record = NewRecord(1000, key, bytes(6))
    return encode_batch([record], base_offset=offset, producer_id=producer_id, control=True, **TRANSACTION)


def with_checksum(data: bytearray) -> bytes:
    """Return the batch *data* with the checksum that fits its bytes."""
    data[CRC_AT : CRC_AT + 4] = crc32c(bytes(data[ATTRIBUTES_AT:])).to_bytes(4, "big")
    return bytes(data)


def spoilt(data: bytes) -> bytes:
    """Return the batch *data* with other compressed bytes, and with a checksum that fits."""
    changed = bytearray(data)
    changed[BATCH_SIZE:] = b"\xff" * (len(data) - BATCH_SIZE)
    return with_checksum(changed)


def in_messages(kernel: Any, data: bytes, **options: Any) -> tuple[list[int], Exception | None]:
    """Return the offsets of the messages in *data*, and the error that ends them."""
    found: list[int] = []
    position = offset = 0
    while True:
        try:
            chunk = kernel.decode(data, "t", 0, offset, position=position, **options)
        except Exception as error:
            return found, error
        found += [message.offset for message in chunk]
        if not chunk.nbytes:
            return found, None
        position, offset = position + chunk.nbytes, chunk.next_offset


def in_columns(kernel: Any, data: bytes, **options: Any) -> tuple[list[int], Exception | None]:
    found: list[int] = []
    position = offset = 0
    while True:
        try:
            chunk = kernel.decode_columns(data, "t", 0, offset, position=position, **options)
        except Exception as error:
            return found, error
        found += chunk.left().columns.offsets
        if not chunk.nbytes:
            return found, None
        position, offset = position + chunk.nbytes, chunk.next_offset


@pytest.fixture(params=[in_messages, partial(in_messages, value_decoder=bytes), in_columns])
def read_all(request: pytest.FixtureRequest) -> ReadAll:
    chosen: ReadAll = request.param
    return chosen


@pytest.mark.parametrize("codec", CODECS)
def test_an_aborted_transaction_among_compressed_batches_is_left_out(
    kernel: Any, read_all: ReadAll, codec: Compression
) -> None:
    seven: dict[str, Any] = {"producer_id": 7, **TRANSACTION}
    eight: dict[str, Any] = {"producer_id": 8, **TRANSACTION}
    data = b"".join(
        (
            batch(0, codec, **seven),
            batch(1, codec),
            marker(2, 7, b"\0\0\0\1"),
            batch(3, codec, **seven),  # aborted
            batch(4, codec, **eight),
            batch(5, codec),
            batch(6, codec, **seven),  # aborted
            marker(7, 7, b"\0\0\0\0"),
            batch(8, codec, **seven),
            marker(9, 8, b"\0\0\0\1"),
            marker(10, 7, b"\0\0\0\1"),
            batch(11, codec, **eight),  # aborted
            marker(12, 8, b"\0\0\0\0"),
            batch(13, codec),
        )
    )
    aborted = AbortedTransactions([(8, 11), (7, 3)])
    for _ in range(2):  # the second time, the ends of the transactions are known
        assert read_all(kernel, data, aborted=aborted) == ([0, 1, 4, 5, 8, 13], None)
    assert read_all(kernel, data) == ([0, 1, 3, 4, 5, 6, 8, 11, 13], None)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_marker_without_a_type_is_an_error_wherever_it_stands(
    kernel: Any, read_all: ReadAll, key: bytes | None
) -> None:
    """With ``read_uncommitted``, no marker is looked at."""
    codec = Compression.LZ4
    for aborted in ([(7, 0)], [(7, 2)], [(9, 100)]):
        data = batch(0, codec) + batch(1, codec, producer_id=7, **TRANSACTION) + marker(2, 7, key)
        found, error = read_all(kernel, data + batch(3, codec), aborted=AbortedTransactions(aborted))
        assert found == ([0] if aborted == [(7, 0)] else [0, 1])
        assert isinstance(error, CorruptRecordError)
        assert str(error) == "the control batch at offset 2 has no type"
        assert read_all(kernel, data + batch(3, codec)) == ([0, 1, 3], None)


@pytest.mark.parametrize("codec", CODECS)
def test_the_batches_before_a_damaged_compressed_batch_are_read_first(
    kernel: Any, read_all: ReadAll, codec: Compression
) -> None:
    parts = [batch(offset, codec) for offset in range(20)]
    parts[11] = spoilt(parts[11])
    found, error = read_all(kernel, b"".join(parts))
    assert found == list(range(11))
    assert isinstance(error, CorruptRecordError)
    assert f"{codec.name.lower()} data cannot be decompressed" in str(error)
    assert read_all(kernel, b"".join(parts[12:]))[0] == list(range(12, 20))


def test_the_batches_before_a_batch_of_an_unknown_codec_are_read_first(
    kernel: Any, read_all: ReadAll
) -> None:
    for number in (5, 6, 7):
        odd = bytearray(batch(2, Compression.NONE))
        odd[ATTRIBUTES_AT + 1] |= number
        data = batch(0, Compression.LZ4) + batch(1, Compression.ZSTD) + with_checksum(odd)
        found, error = read_all(kernel, data + batch(3, Compression.LZ4))
        assert found == [0, 1]
        assert isinstance(error, UnsupportedCodecError)
        assert str(error) == f"compression codec {number} is not known to this client"


@pytest.mark.parametrize("codec", CODECS)
def test_a_small_batch_is_not_decompressed_to_more_than_the_limit(
    kernel: Any, read_all: ReadAll, codec: Compression
) -> None:
    data = batch(0, codec) + batch(1, codec, bytes(12 * MIB)) + batch(2, codec)
    assert read_all(kernel, data) == ([0, 1, 2], None)
    tracemalloc.start()
    try:
        found, error = read_all(kernel, data, max_decompressed=MIB)
        assert tracemalloc.get_traced_memory()[1] < 5 * MIB
    finally:
        tracemalloc.stop()
    assert found == [0]
    assert isinstance(error, MessageTooLargeError)
    assert "max_decompressed_bytes" in str(error)


@pytest.mark.parametrize("codec", CODECS)
def test_a_chunk_ends_when_its_batches_have_enough_decompressed_bytes(
    kernel: Any, codec: Compression
) -> None:
    data = b"".join(batch(offset, codec, bytes(MIB // 2)) for offset in range(20))
    assert kernel.decode(data, "t", 0, 0).remaining == 2
    assert kernel.decode_columns(data, "t", 0, 0).remaining == 8

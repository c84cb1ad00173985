"""Shallow iteration hands out compressed batches as they are."""

from itertools import islice

import pytest

from pyklient.config import ConsumerConfig
from pyklient.errors import ConfigurationError, CorruptRecordError
from pyklient.kernel import decode, encode_batch
from pyklient.protocol.records import Compression, NewRecord
from pyklient.protocol.records.compression import decompress
from pyklient.protocol.records.layout import BATCH_SIZE
from tests.consumer.stream.bench import Bench, values


def batch(magic: int, compression: Compression, base: int, *texts: str) -> bytes:
    records = [NewRecord(1_000 + index, b"k", text.encode(), ()) for index, text in enumerate(texts)]
    return encode_batch(records, magic=magic, compression=compression, base_offset=base)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY])
@pytest.mark.parametrize("magic", [0, 1, 2])
def test_a_compressed_batch_is_one_message_and_other_records_are_messages(
    magic: int, codec: Compression
) -> None:
    bench = Bench(shallow=True)
    compressed = batch(magic, codec, 2, "c", "d", "e")
    plain = batch(magic, Compression.NONE, 0, "a", "b")
    after = batch(magic, Compression.NONE, 5, "f")
    bench.put(plain + compressed + after, batch(magic, codec, 6, "g"), then=7)
    a, b, wrapper, f, last = islice(bench.stream, 5)
    assert values([a, b, f]) == ["a", "b", "f"]
    assert [each.offset for each in (a, b, wrapper, f, last)] == [0, 1, 4, 5, 6]
    assert wrapper.headers == (("compression.codec", codec.name.lower().encode()),)
    assert (wrapper.key, a.key) == (None, b"k")
    assert wrapper.timestamp_ms == (-1 if magic == 0 else 1_002)
    inner = decompress(codec, wrapper.value, magic, 1_000)
    if magic == 2:
        header = bytearray(compressed[:BATCH_SIZE])
        header[22] = 0  # no codec
        header[8:12] = (BATCH_SIZE - 12 + len(inner)).to_bytes(4)
        inner = bytes(header) + inner
    found = decode(inner, "t", 0, 0, check_crcs=False)
    assert values(list(found)) == ["c", "d", "e"]


def test_a_batch_before_the_position_is_left_out_and_the_position_is_behind_the_last_record() -> None:
    bench = Bench(shallow=True)
    first, second = batch(2, Compression.GZIP, 0, "a", "b"), batch(2, Compression.GZIP, 2, "c", "d")
    bench.put(first, second, start=3, then=4)
    assert [each.offset for each in islice(bench.stream, 1)] == [3]
    assert {each.offset for each in bench.stream.handed(in_hand=True).values()} == {4}


@pytest.mark.parametrize("magic", [1, 2])
def test_a_damaged_batch_is_an_error(magic: int) -> None:
    bench = Bench(shallow=True)
    damaged = bytearray(batch(magic, Compression.GZIP, 0, "a"))
    damaged[-1] ^= 1
    bench.put(bytes(damaged), then=1)
    with pytest.raises(CorruptRecordError, match="t-0 at offset 0: the checksum"):
        next(iter(bench.stream))


def test_what_contradicts_shallow_iteration_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="isolation_level=read_uncommitted"):
        ConsumerConfig.from_options({"shallowiterator_enable": True, "isolation_level": "read_committed"})
    with pytest.raises(ConfigurationError, match="shallowiterator_enable, which leaves records compressed"):
        Bench(shallow=True).stream.arrow_batches()

"""A stream of a mirror hands out only those batches whole that a producer can send again as they are."""

from itertools import islice
from typing import Any

import pytest

from pyklient.errors import CorruptRecordError
from pyklient.kernel import encode_batch
from pyklient.protocol.records import Compression, NewRecord, RecordBatch
from pyklient.protocol.records.layout import LOG_APPEND_TIME
from tests.consumer.stream.bench import Bench, values


def batch(base: int, *texts: str, **header: Any) -> bytes:
    records = [NewRecord(1_000 + index, b"k", text.encode(), ()) for index, text in enumerate(texts)]
    return encode_batch(records, base_offset=base, **header)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_is_one_message_with_the_bytes_of_the_batch(codec: Compression) -> None:
    bench = Bench(whole_batches=True)
    first, second = batch(0, "a", "b", compression=codec), batch(2, "c", compression=codec)
    bench.put(first, second, then=3)
    messages = list(islice(bench.stream, 2))
    assert [bytes(each.value.buffer) for each in messages] == [first, second]
    assert [each.offset for each in messages] == [0, 2]
    assert {each.offset for each in bench.stream.handed(in_hand=True).values()} == {3}


@pytest.mark.parametrize(
    "header",
    [
        {"magic": 1},
        {"magic": 1, "compression": Compression.GZIP},
        {"timestamp_type": LOG_APPEND_TIME},
        {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "transactional": True},
        {"offset_deltas": [0, 2]},
    ],
    ids=str,
)
def test_other_batches_are_messages(header: dict[str, Any]) -> None:
    bench = Bench(whole_batches=True)
    bench.put(batch(0, "a", "b", **header), batch(3, "c", "d", **header), batch(6, "e", "f"), then=8)
    *messages, whole = islice(bench.stream, 5)
    assert values(messages) == ["a", "b", "c", "d"]
    assert isinstance(whole.value, RecordBatch)


def test_a_batch_in_whose_middle_reading_begins_is_decoded() -> None:
    bench = Bench(whole_batches=True)
    bench.put(batch(0, "a", "b", "c"), batch(3, "d"), start=1, then=4)
    b, c, whole = islice(bench.stream, 3)
    assert (values([b, c]), whole.offset) == (["b", "c"], 3)


def test_a_batch_that_is_redelivered_is_whole_again() -> None:
    bench = Bench(whole_batches=True)
    first = batch(0, "a", "b", "c", compression=Compression.GZIP)
    bench.put(first, then=3)
    for _ in range(2):
        loop = bench.stream.batches(max_records=1, timeout=0.0)
        (message,) = next(loop)
        assert bytes(message.value.buffer) == first
        bench.stream.redeliver()


@pytest.mark.parametrize("check_crcs", [True, False])
def test_a_damaged_batch_is_an_error(check_crcs: bool) -> None:
    """A mirror must not give it a new checksum."""
    bench = Bench(whole_batches=True, check_crcs=check_crcs)
    damaged = bytearray(batch(0, "a"))
    damaged[-1] ^= 1
    bench.put(bytes(damaged), then=1)
    with pytest.raises(CorruptRecordError, match="t-0 at offset 0: the checksum"):
        next(iter(bench.stream))

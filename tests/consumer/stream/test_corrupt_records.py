"""Records that cannot be read are skipped if the program says so (``on_corrupt``), and nothing else is."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pyklient.consumer.fetch.fetch_position import Cursor, FetchFailure
from pyklient.consumer.fetch.fetch_queue import FetchQueue
from pyklient.corrupt_records import CorruptRecords
from pyklient.errors import CorruptRecordError, MessageTooLargeError
from pyklient.kernel import encode_batch
from pyklient.protocol.records import Compression, NewRecord
from pyklient.protocol.records.message_set import encode_set
from pyklient.serialization import decode_json
from pyklient.topic_partition import TopicPartition
from tests.consumer.stream.bench import Bench, batch, until_raised, values

T0 = TopicPartition("t", 0)


def spoilt(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[-1] ^= 1
    return bytes(changed)


class Skipping(Bench):
    """A stream that skips what cannot be read, and a record of what it has skipped."""

    def __init__(self, **decoding: Any) -> None:
        self.told: list[CorruptRecords] = []
        super().__init__(timeout=0.02, on_corrupt=self.told.append, **decoding)
        self.reads_again = True

    @property
    def ranges(self) -> list[tuple[int, int]]:
        assert all((each.topic, each.partition) == T0 for each in self.told)
        return [(each.first_offset, each.next_offset) for each in self.told]

    @property
    def counted(self) -> tuple[int, int]:
        return self.cursors[0].counts.corrupt


def by_messages(bench: Bench) -> list[Any]:
    return values(until_raised(bench.stream))


def by_lists(bench: Bench) -> list[Any]:
    found: list[Any] = []
    for each in bench.stream.batches(2, 0.02):
        if not each:
            break
        found += values(each)
    return found


def by_columns(bench: Bench) -> list[Any]:
    found: list[Any] = []
    for each in bench.stream.arrow_batches(2, 0.02):
        if not each.num_rows:
            break
        found += [value.decode() for value in each.column("value").to_pylist()]
    return found


@pytest.fixture(params=[by_messages, by_lists, by_columns])
def read(request: pytest.FixtureRequest) -> Callable[[Bench], list[Any]]:
    chosen: Callable[[Bench], list[Any]] = request.param
    return chosen


@pytest.mark.both_kernels
def test_a_batch_that_cannot_be_read_is_skipped_told_and_counted(
    read: Callable[[Bench], list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    bench = Skipping()
    cursor = bench.cursors[0]
    bench.put(batch("a", "b"), spoilt(batch("c", "d", base=2)), batch("e", base=4), then=5)
    with caplog.at_level(logging.INFO, "pyklient.consumer"):
        assert read(bench) == ["a", "b", "e"]
    assert bench.ranges == [(2, 4)]
    assert isinstance(bench.told[0].error, CorruptRecordError)
    assert "t-0 at offset 2: the checksum" in str(bench.told[0].error)
    assert bench.restarted == [(T0, 2), (T0, 4)], "it is fetched twice before it is skipped"
    assert cursor.counts.corrupt == (1, 2)
    (record,) = [each for each in caplog.records if getattr(each, "event", "") == "corrupt_records_skipped"]
    fields = {name: getattr(record, name) for name in ("topic", "partition", "offset", "next")}
    assert fields == {"topic": "t", "partition": 0, "offset": 2, "next": 4}


@pytest.mark.both_kernels
@pytest.mark.parametrize("codec", list(Compression)[1:])
def test_a_compressed_batch_that_cannot_be_read_is_named_after_those_before_it(
    read: Callable[[Bench], list[Any]], codec: Compression
) -> None:
    bench = Skipping()
    compressed = partial(batch, compression=codec)
    bench.put(
        compressed("a"), compressed("b", base=1), spoilt(compressed("c", base=2)), batch("d", base=3), then=4
    )
    assert read(bench) == ["a", "b", "d"]
    assert bench.ranges == [(2, 3)]
    assert "t-0 at offset 2: the checksum" in str(bench.told[0].error)


def test_the_position_moves_past_what_is_skipped_at_the_end(read: Callable[[Bench], list[Any]]) -> None:
    bench = Skipping()
    bench.put(batch("a"), spoilt(batch("b", "c", base=1)), then=3)
    assert read(bench) == ["a"]
    assert bench.committable(in_hand=True) == {0: 3}, "a commit goes past it"
    assert bench.ranges == [(1, 3)]


def test_bytes_that_were_damaged_on_their_way_are_fetched_again_and_nothing_is_skipped() -> None:
    bench = Skipping()
    bench.put(batch("a"), spoilt(batch("b", "c", base=1)), then=3)
    bench.logs[0] = [(memoryview(batch("a") + batch("b", "c", base=1)), 0, 3)]
    assert by_messages(bench) == ["a", "b", "c"]
    assert bench.told == []


def test_an_exception_of_the_function_skips_nothing_and_the_next_loop_asks_again() -> None:
    answers = iter([ValueError("stop here"), None])
    told = []

    def decide(corrupt: CorruptRecords) -> None:
        told.append(corrupt.first_offset)
        if (error := next(answers)) is not None:
            raise error

    bench = Bench(timeout=0.02, on_corrupt=decide)
    bench.reads_again = True
    bench.put(batch("a"), spoilt(batch("b", base=1)), batch("c", base=2), then=3)
    assert values(until_raised(bench.stream, ValueError)) == ["a"]
    assert bench.committable(in_hand=True) == {0: 1}
    assert by_messages(bench) == ["c"]
    assert told == [1, 1]


def test_a_seek_in_the_function_decides_where_reading_continues() -> None:
    def seek(_: CorruptRecords) -> None:
        bench.stream.seek(T0, 3)

    bench = Bench(timeout=0.02, on_corrupt=seek)
    bench.reads_again = True
    bench.put(batch("a"), spoilt(batch("b", base=1)), batch("c", base=2), batch("d", base=3), then=4)
    assert by_messages(bench) == ["a", "d"]
    assert bench.cursors[0].counts.corrupt == (0, 0), "nothing was skipped"


def test_a_partition_that_is_revoked_in_the_function_has_no_new_position() -> None:
    def revoke(_: CorruptRecords) -> None:
        bench.deactivate()
        bench.stream.revoke()

    bench = Bench(timeout=0.02, on_corrupt=revoke)
    bench.reads_again = True
    bench.put(batch("a"), spoilt(batch("b", base=1)), batch("c", base=2), then=3)
    assert by_messages(bench) == ["a"]
    assert bench.committable(in_hand=True) == {0: 1}


def test_redeliver_and_seek_lead_back_over_what_was_skipped() -> None:
    bench = Skipping()
    bench.put(batch("a"), spoilt(batch("b", base=1)), batch("c", base=2), then=3)
    loop = iter(bench.stream)
    assert values([next(loop), next(loop)]) == ["a", "c"]
    bench.stream.redeliver()
    assert values([next(loop)]) == ["c"], "only the message in hand comes again"
    bench.stream.seek(T0, 0)
    assert values([next(loop), next(loop)]) == ["a", "c"]
    assert bench.ranges == [(1, 2), (1, 2)]
    assert bench.cursors[0].counts.corrupt == (2, 2)


@pytest.mark.both_kernels
def test_a_batch_that_decompresses_to_too_much_is_skipped_with_that_error() -> None:
    bench = Skipping(max_decompressed=1000)
    big = encode_batch([NewRecord(0, None, b"x" * 5000, ())] * 3, base_offset=1, compression=Compression.GZIP)
    bench.put(batch("a"), big, batch("b", base=4), then=5)
    assert by_messages(bench) == ["a", "b"]
    assert bench.ranges == [(1, 4)]
    assert isinstance(bench.told[0].error, MessageTooLargeError)


@pytest.mark.both_kernels
@pytest.mark.parametrize("magic", [0, 1])
def test_entries_of_the_old_formats_are_skipped_one_by_one(magic: int) -> None:
    bench = Skipping()

    def entries(base: int, *texts: str, compression: Compression = Compression.NONE) -> bytes:
        offsets = range(base, base + len(texts))
        return encode_set([(0, None, text.encode()) for text in texts], offsets, magic, compression)

    wrapper = spoilt(entries(2, "c", "d", compression=Compression.GZIP))
    bench.put(entries(0, "a"), then=1)  # brokers return no entry that ends before the offset asked for
    bench.put(spoilt(entries(1, "b")), start=1, then=2)
    bench.put(wrapper, entries(4, "e"), start=2, then=5)
    assert by_messages(bench) == ["a", "e"]
    assert bench.ranges == [(1, 2), (2, 4)]


def test_a_batch_of_unknown_length_is_passed_one_offset_at_a_time(caplog: pytest.LogCaptureFixture) -> None:
    bench = Skipping()
    bench.put(batch("a"), then=1)
    loop = iter(bench.stream)
    assert values([next(loop)]) == ["a"]
    with caplog.at_level(logging.INFO, "pyklient.consumer"):
        for position in (1, 1, 2, 3):  # the first offset is fetched twice
            cursor = bench.stream.queue.cursor(T0)
            bench.stream.queue.put([FetchFailure(cursor, CorruptRecordError("not a batch"), position)])
            until_raised(bench.stream)
    assert bench.ranges == [(1, 2), (2, 3), (3, 4)]
    assert bench.cursors[0].counts.corrupt == (1, 3)
    assert bench.committable(in_hand=True) == {0: 4}
    lines = [each for each in caplog.records if each.name.startswith("pyklient.consumer")]
    assert len(lines) == 1, "one batch is one line of the log"


def test_an_intact_batch_after_one_of_unknown_length_is_fetched_twice_too() -> None:
    bench = Skipping()
    for _ in range(2):
        cursor = bench.stream.queue.cursor(T0)
        bench.reads_again = False
        bench.stream.queue.put([FetchFailure(cursor, CorruptRecordError("not a batch"), 0)])
        until_raised(bench.stream)
    bench.cursors[0], bench.reads_again = bench.stream.queue.cursor(T0), True
    bench.put(spoilt(batch("b", base=1)), start=1, then=2)
    bench.logs[0] = [(memoryview(batch("b", base=1)), 1, 2)]
    assert by_messages(bench) == ["b"]
    assert bench.ranges == [(0, 1)]


def test_a_batch_that_was_read_meanwhile_is_fetched_twice_again_before_it_is_skipped() -> None:
    intact, damaged = (memoryview(each) for each in (batch("a"), spoilt(batch("a"))))
    bench = Skipping()
    for _ in range(3):
        bench.logs[0] = [(damaged, 0, 1)]
        bench.stream.seek(T0, 0)
        bench.logs[0] = [(intact, 0, 1)]
        assert by_messages(bench) == ["a"]
    assert bench.told == []


def test_a_skip_that_is_interrupted_is_counted() -> None:
    class Interrupted(Skipping):
        def _restart(self, queue: FetchQueue, cursor: Cursor, at: int | None) -> None:
            super()._restart(queue, cursor, at)
            if at == 2 and self.restarted.count((T0, 2)) == 1:
                raise KeyboardInterrupt

    bench = Interrupted()
    bench.put(batch("a"), spoilt(batch("b", base=1)), batch("c", base=2), then=3)
    with pytest.raises(KeyboardInterrupt):
        list(bench.stream)
    assert by_messages(bench) == ["c"]
    assert bench.counted == (1, 1)


def test_errors_of_decoders_are_not_told(read: Callable[[Bench], list[Any]]) -> None:
    if read is by_columns:
        return  # columns have no decoders
    bench = Skipping(value_decoder=decode_json)
    bench.put(batch("1", "not json", "3"), then=3)
    with pytest.raises(ValueError, match="Expecting value"):
        read(bench)
    assert bench.told == []


def test_without_the_option_loops_raise_each_time() -> None:
    bench = Bench(timeout=0.02)
    bench.reads_again = True
    bench.put(batch("a"), spoilt(batch("b", base=1)), batch("c", base=2), then=3)
    assert values(until_raised(bench.stream, CorruptRecordError)) == ["a"]
    assert values(until_raised(bench.stream, CorruptRecordError)) == []
    assert bench.committable(in_hand=True) == {0: 1}

"""Loops over Arrow batches have the cursor, the commits and the records of ``for`` loops, in columns."""

import subprocess
import sys
import threading
from itertools import islice
from typing import Any, Final

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient import ConsumerConnector
from pyklient.consumer.bounded_read import read
from pyklient.consumer.stream.messages_or_columns import ColumnDecoding
from pyklient.errors import ConfigurationError, ConsumerTimeout, CorruptRecordError, StreamInUseError
from pyklient.kernel import encode_batch
from pyklient.kernel.decode.column_decoding import ColumnChunk
from pyklient.protocol.records import Compression, NewRecord
from pyklient.serialization import decode_text
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed
from tests.consumer.stream.bench import Bench, batch, marker, until_raised, values
from tests.kernel.samples import ALLOWED, LEGACY_SAMPLES, SAMPLES, new_records

pytestmark = pytest.mark.both_kernels

NAMES: Final = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
SCHEMA: Final = pyarrow.schema(
    [
        ("key", pyarrow.binary()),
        ("value", pyarrow.binary()),
        ("topic", pyarrow.string()),
        ("partition", pyarrow.int32()),
        ("offset", pyarrow.int64()),
        ("timestamp", pyarrow.timestamp("us", tz="UTC")),
        ("timestampType", pyarrow.int32()),
    ]
)


def texts(found: Any) -> list[str]:
    """Return the values of an Arrow batch as text."""
    found.validate(full=True)
    return [value.decode() for value in found.column("value").to_pylist()]


def facts(found: Any) -> list[tuple[Any, ...]]:
    """Return the records of an Arrow batch or table with headers, in the form in which ``fact`` returns a
    message."""
    found.validate(full=True)
    times = found.column("timestamp").cast(pyarrow.int64()).to_pylist()
    return [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            time,
            row["timestampType"],
            row["key"],
            row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"]),
        )
        for row, time in zip(_rows(found), times, strict=True)
    ]


def _rows(found: Any) -> list[dict[str, Any]]:
    names = [name for name in found.schema.names if name != "timestamp"]
    columns = [found.column(name).to_pylist() for name in names]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def fact(message: Any) -> tuple[Any, ...]:
    return (
        message.topic,
        message.partition,
        message.offset,
        message.timestamp_ms * 1000,
        message.timestamp_type,
        message.key,
        message.value,
        message.headers,
    )


def test_the_schema_is_that_of_sparks_kafka_source() -> None:
    bench = Bench()
    bench.put(batch("a"), then=1)
    [found] = islice(bench.stream.arrow_batches(), 1)
    assert found.schema == SCHEMA
    headers = pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())])
    element = pyarrow.list_(pyarrow.field("element", headers))
    [nothing] = islice(bench.stream.arrow_batches(timeout=0, headers=True), 1)
    assert list(nothing.schema) == [*SCHEMA, pyarrow.field("headers", element)]


@settings(deadline=None, max_examples=60)
@given(st.lists(new_records, min_size=1, max_size=20), st.integers(1, 7), st.sampled_from(list(Compression)))
def test_batches_hold_what_messages_would(records: list[NewRecord], most: int, codec: Compression) -> None:
    data = encode_batch(records, compression=codec)
    benches = Bench(timeout=0), Bench(timeout=0)
    for bench in benches:
        bench.put(
            data, encode_batch(records, base_offset=len(records), timestamp_type=1), then=2 * len(records)
        )
    found = benches[0].stream.arrow_batches(most, timeout=None, headers=True)
    rows = [row for each in until_raised(found) for row in facts(each)]
    assert rows == [fact(message) for message in until_raised(benches[1].stream)]


@pytest.mark.parametrize(("magic", "codec"), ALLOWED)
def test_every_format_and_codec_is_read(magic: int, codec: Compression) -> None:
    bench = Bench()
    written = encode_batch(SAMPLES if magic == 2 else LEGACY_SAMPLES, magic=magic, compression=codec)
    bench.put(written, then=len(SAMPLES))
    [found] = islice(bench.stream.arrow_batches(headers=True), 1)
    assert [row[5:] for row in facts(found)] == [
        (each.key, each.value, tuple(each.headers) if magic == 2 else ()) for each in SAMPLES
    ]
    if not magic:
        assert {row[3:5] for row in facts(found)} == {(-1000, -1)}


def test_a_batch_is_of_one_partition_and_of_no_more_than_asked() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), batch("d", base=3), then=4)
    bench.put(batch("e"), partition=1, then=1)
    loop = bench.stream.arrow_batches(max_records=2, timeout=0)
    found = [next(loop) for _ in range(4)]
    assert [texts(each) for each in found] == [["a", "b"], ["c", "d"], ["e"], []]
    assert [each.column("partition").to_pylist() for each in found] == [[0, 0], [0, 0], [1], []]
    assert [each.column("offset").to_pylist() for each in found] == [[0, 1], [2, 3], [0], []]


def test_a_batch_without_records_comes_after_the_time_out_and_the_loop_goes_on() -> None:
    bench = Bench()
    loop = bench.stream.arrow_batches(timeout=0.01)
    assert next(loop).num_rows == 0
    bench.put(batch("a"), then=1)
    assert texts(next(loop)) == ["a"]


def test_without_a_time_out_it_is_as_in_a_for_loop() -> None:
    bench = Bench(timeout=0.01)
    with pytest.raises(ConsumerTimeout):
        next(bench.stream.arrow_batches(timeout=None))


@pytest.mark.parametrize("first", [1, 2, 3])
def test_loops_of_all_kinds_share_one_cursor_inside_a_batch_too(first: int) -> None:
    bench = Bench()
    records = [NewRecord(at, b"k", b"%d" % at, (("größe", b"%d" % at), ("n", None))) for at in range(9)]
    bench.put(encode_batch(records), then=9)
    seen: list[Any] = []
    while len(seen) < 9:
        seen += [fact(message) for message in islice(bench.stream, first)]
        seen += [
            row for each in islice(bench.stream.arrow_batches(1, 0, headers=True), 1) for row in facts(each)
        ]
        seen += [fact(message) for message in next(bench.stream.batches(1, timeout=0))]
        assert bench.committable(in_hand=True) == {0: len(seen)}
        plain = next(bench.stream.arrow_batches(1, timeout=0))
        seen += [
            (
                "t",
                0,
                row["offset"],
                row["offset"] * 1000,
                0,
                b"k",
                row["value"],
                records[row["offset"]].headers,
            )
            for row in _rows(plain)
        ]
        assert bench.committable(in_hand=True) == {0: len(seen)}
    assert seen == [
        ("t", 0, at, at * 1000, 0, b"k", b"%d" % at, (("größe", b"%d" % at), ("n", None))) for at in range(9)
    ]


def test_loops_of_all_kinds_share_one_cursor_also_when_their_steps_take_turns() -> None:
    bench = Bench()
    bench.put(batch(*"abcdefgh"), then=8)
    messages: Any = iter(bench.stream)
    columns = bench.stream.arrow_batches(2, timeout=0)
    seen = [next(messages).value.decode(), *texts(next(columns)), next(messages).value.decode()]
    assert seen == ["a", "b", "c", "d"]
    assert [*texts(next(columns)), next(messages).value.decode()] == ["e", "f", "g"]
    assert bench.committable(in_hand=True) == {0: 7}


def test_what_has_been_handed_out_counts_before_a_loop_of_another_kind_hands_out_more() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), then=3)
    next(iter(bench.stream))
    assert isinstance(bench.stream._reader.next(0, ColumnDecoding(1)), ColumnChunk)
    assert bench.committable(in_hand=True) == bench.committable(in_hand=False) == {0: 1}


def test_a_batch_is_in_hand_until_the_next_one_is_asked_for() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), then=3)
    bench.put(batch("d"), partition=1, then=1)
    loop = bench.stream.arrow_batches(2, timeout=0)
    next(loop)
    assert bench.committable(in_hand=True) == {0: 2}
    assert bench.committable(in_hand=False) == {0: 0}
    next(loop)
    assert bench.committable(in_hand=True) == {0: 3}
    assert bench.committable(in_hand=False) == {0: 2}
    next(loop)
    assert bench.committable(in_hand=False) == {0: 3, 1: 0}
    next(loop)
    assert bench.committable(in_hand=False) == {0: 3, 1: 1}


def test_what_is_taken_away_is_not_handed_out_and_the_position_stays() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), then=3)
    loop = bench.stream.arrow_batches(1, timeout=0)
    next(loop)
    bench.deactivate()
    bench.stream.revoke()
    assert next(loop).num_rows == 0
    assert bench.committable(in_hand=True) == {0: 1}


def test_what_a_for_loop_had_in_hand_when_it_was_taken_away_is_not_made_into_columns() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), then=3)
    next(iter(bench.stream))
    bench.deactivate()
    bench.stream.revoke()
    assert next(bench.stream.arrow_batches(timeout=0)).num_rows == 0
    assert bench.committable(in_hand=True) == {0: 1}


def test_aborted_transactions_and_markers_are_passed_over() -> None:
    bench = Bench()

    def transactional(text: str, base: int) -> bytes:
        return batch(text, base=base, transactional=True, producer_id=5, producer_epoch=0)

    data = (
        transactional("aborted", 0),
        batch("plain", base=1),
        marker(2, 0),
        transactional("committed", 3),
        marker(4, 1),
    )
    bench.put(*data, then=5, aborted=[(5, 0)])
    loop = bench.stream.arrow_batches(timeout=0)
    assert texts(next(loop)) == ["plain", "committed"]
    next(loop)
    assert bench.committable(in_hand=False) == {0: 5}


def test_a_corrupt_batch_surfaces_behind_the_good_ones_with_its_place() -> None:
    bench = Bench()
    bad = bytearray(batch("c", base=2))
    bad[-1] ^= 1
    bench.put(batch("a", "b"), bytes(bad), then=3)
    loop = bench.stream.arrow_batches(timeout=0)
    assert texts(next(loop)) == ["a", "b"]
    with pytest.raises(CorruptRecordError, match="t-0 at offset 2"):
        next(loop)
    assert bench.restarted == [(TopicPartition("t", 0), 2)]


def test_a_timestamp_beyond_arrows_microseconds_is_null() -> None:
    bench = Bench()
    edge = (2**63 - 1) // 1000
    times = [edge, edge + 1, -edge, -edge - 1, 2**63 - 1, 5]
    bench.put(encode_batch([NewRecord(each, None, b"") for each in times]), then=6)
    [found] = islice(bench.stream.arrow_batches(), 1)
    found.validate(full=True)
    assert found.column("timestamp").cast(pyarrow.int64()).to_pylist() == [
        edge * 1000, None, -edge * 1000, None, None, 5000,
    ]  # fmt: skip


@pytest.mark.parametrize("which", ["key_decoder", "value_decoder"])
def test_decoders_are_refused_at_once(which: str) -> None:
    decoders: dict[str, Any] = {which: decode_text}
    with pytest.raises(ConfigurationError, match="without decoders"):
        Bench(**decoders).stream.arrow_batches()


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"max_records": 0}, ConfigurationError),
        ({"max_records": 1.5}, TypeError),
        ({"timeout": "1"}, TypeError),
        ({"headers": 1}, TypeError),
        ({"columns": "value"}, TypeError),
        ({"columns": 1}, TypeError),
        ({"columns": []}, ConfigurationError),
        ({"columns": ["value"], "headers": True}, ConfigurationError),
    ],
)
def test_wrong_arguments_are_refused_at_once(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(arguments))):
        Bench().stream.arrow_batches(**arguments)


@pytest.mark.parametrize("columns", [["value", "Key"], ["value", 1], ["value", "key", "value"]])
def test_names_of_columns_that_are_unknown_or_repeated_are_refused(columns: Any) -> None:
    known = "key, value, topic, partition, offset, timestamp, timestampType, headers"
    with pytest.raises(ConfigurationError, match=f"{columns[-1]!r}.*{known}$"):
        Bench().stream.arrow_batches(columns=columns)


@pytest.mark.parametrize("names", [["value"], ["timestamp", "value"], ["topic", "headers"], [*NAMES[::-1]]])
@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
def test_only_the_columns_that_are_asked_for_are_made(names: list[str], codec: Compression) -> None:
    benches = Bench(), Bench()
    for bench in benches:
        bench.put(encode_batch(SAMPLES, compression=codec), then=len(SAMPLES))
    [found] = islice(benches[0].stream.arrow_batches(columns=iter(names)), 1)
    [whole] = islice(benches[1].stream.arrow_batches(headers=True), 1)
    found.validate(full=True)
    assert found.schema.names == names
    for name in names:
        assert found.schema.field(name) == whole.schema.field(name)
        assert found.column(name) == whole.column(name)
    made = benches[0].stream._reader.chunk
    assert isinstance(made, ColumnChunk)
    columns = made.left().columns
    assert bool(columns.timestamps) == bool(columns.timestamps.nbytes) == ("timestamp" in names)
    assert bool(columns.values.data.nbytes) == ("value" in names)
    [nothing] = islice(benches[0].stream.arrow_batches(timeout=0, columns=names), 1)
    assert (nothing.num_rows, nothing.schema) == (0, found.schema)


def test_loops_with_other_columns_and_for_loops_share_one_cursor() -> None:
    bench = Bench()
    records = [NewRecord(at, b"k", b"%d" % at, (("n", b"%d" % at),)) for at in range(16)]
    bench.put(encode_batch(records[:9]), encode_batch(records[9:], base_offset=9), then=16)
    seen: list[Any] = []

    def columns(*names: str) -> list[Any]:
        [found] = islice(bench.stream.arrow_batches(2, 0, columns=names), 1)
        found.validate(full=True)
        return list(zip(*(found.column(name).to_pylist() for name in names), strict=True))

    for _ in range(2):
        seen += [at for (at,) in columns("offset")]
        before = columns("value", "key")
        bench.stream.redeliver()
        assert columns("value", "key") == before
        seen += [int(value) for value, _ in before]
        assert bench.committable(in_hand=True) == {0: len(seen)}
        for message in islice(bench.stream, 2):
            assert fact(message)[2:] == (
                len(seen),
                len(seen) * 1000,
                0,
                b"k",
                b"%d" % len(seen),
                message.headers,
            )
            assert message.headers == (("n", b"%d" % len(seen)),)
            seen.append(message.offset)
        assert bench.committable(in_hand=True) == {0: len(seen)}
        seen += [int(headers[0]["value"]) for (headers,) in columns("headers")]
        assert bench.committable(in_hand=True) == {0: len(seen)}
        assert bench.committable(in_hand=False) == {0: len(seen) - 2}
    assert seen == list(range(16))
    bench.stream.redeliver()
    assert [each.offset for each in next(bench.stream.batches(5, timeout=0))] == [14, 15]


def test_a_second_thread_is_refused_while_a_loop_is_under_way() -> None:
    bench = Bench(timeout=None)
    bench.put(batch("a"), then=1)
    loop = iter(bench.stream)
    next(loop)
    raised: list[Exception] = []

    def other() -> None:
        try:
            next(bench.stream.arrow_batches())
        except StreamInUseError as error:
            raised.append(error)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join(30)
    assert len(raised) == 1


def test_without_pyarrow_the_error_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from tests.consumer.stream.bench import Bench\n"
        "try: Bench().stream.arrow_batches()\n"
        "except ModuleNotFoundError as error: print(error.name, error)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.startswith("pyarrow pyarrow is not installed; install the extra `arrow`: pip install")


def test_importing_pyklient_does_not_import_pyarrow() -> None:
    program = "import sys, pyklient, pyklient.consumer.stream.stream_core; sys.exit('pyarrow' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)


class TestOnABroker:
    def test_a_group_reads_and_commits_batches(self, feed: Feed) -> None:
        topic = feed.topic(2, *"abcde")
        feed.send(topic, ["x"], partition=1)
        group = feed.name()
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        with ConsumerConnector(feed.bootstrap_servers, group_id=group, **options) as connector:
            stream = connector.stream(topic)
            seen: list[str] = []
            for found in stream.arrow_batches(max_records=4, timeout=0.2):
                seen += texts(found)
                if len(seen) == 6:
                    break
            stream.commit_offsets()
        assert sorted(seen) == ["a", "b", "c", "d", "e", "x"]
        assert feed.committed(group, topic, 2) == [5, 1]

    def test_automatic_commit_leaves_out_the_batch_in_hand_after_an_error(self, feed: Feed) -> None:
        topic, group = feed.topic(1, *"abcd"), feed.name()

        def work() -> None:
            with ConsumerConnector(
                feed.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
            ) as connector:
                loop = connector.stream(topic).arrow_batches(max_records=2, timeout=5)
                assert texts(next(loop)) == ["a", "b"]
                assert texts(next(loop)) == ["c", "d"]
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            work()
        assert feed.committed(group, topic) == [2]

    @pytest.mark.parametrize("codec", list(Compression))
    def test_a_read_becomes_a_table(self, feed: Feed, codec: Compression) -> None:
        topic = feed.topic(3)
        for partition in range(3):
            feed.append(topic, encode_batch(SAMPLES, compression=codec), partition)
            feed.append(topic, encode_batch(SAMPLES[::-1], compression=codec), partition)
        start = {TopicPartition(topic, 0): 2, TopicPartition(topic, 1): 7}
        end = {TopicPartition(topic, 0): 8, TopicPartition(topic, 1): 11}
        bounds: Any = {"start": start, "end": end}
        table = read(feed.bootstrap_servers, topic, **bounds).to_arrow(headers=True)
        expected = [fact(message) for message in read(feed.bootstrap_servers, topic, **bounds)]
        assert sorted(facts(table), key=lambda row: row[:3]) == sorted(expected, key=lambda row: row[:3])
        assert len(expected) == 6 + 4 + 12

    def test_a_read_has_the_columns_that_are_asked_for(self, feed: Feed) -> None:
        topic = feed.topic(1, *"abc")
        names = ["offset", "value"]
        table = read(feed.bootstrap_servers, topic).to_arrow(columns=names)
        assert table.to_pylist() == [{"offset": at, "value": b"abc"[at : at + 1]} for at in range(3)]
        [found] = read(feed.bootstrap_servers, topic).arrow_batches(columns=iter(names))
        assert (found.schema, found.to_pylist()) == (table.schema, table.to_pylist())
        empty = read(feed.bootstrap_servers, feed.topic(1)).to_arrow(columns=names)
        assert (empty.num_rows, empty.schema) == (0, table.schema)

    def test_batches_of_a_read_end_with_it_and_none_is_empty(self, feed: Feed) -> None:
        topic = feed.topic(1, *"abcde")
        with read(feed.bootstrap_servers, topic) as reading:
            assert values(list(islice(reading, 1))) == ["a"]
            assert [texts(each) for each in reading.arrow_batches(max_records=3)] == [["b", "c", "d"], ["e"]]
        assert read(feed.bootstrap_servers, feed.topic(1)).to_arrow().num_rows == 0

    def test_an_empty_topic_is_an_empty_table(self, feed: Feed) -> None:
        table = read(feed.bootstrap_servers, feed.topic(2)).to_arrow()
        assert (table.num_rows, table.schema) == (0, SCHEMA)

    def test_a_broker_that_falls_silent_is_noticed(self, feed: Feed) -> None:
        reading = read(feed.bootstrap_servers, feed.topic(1, "a"), consumer_timeout_ms=100)
        reading._cursors[0].end = 5  # as if more had been promised
        reading._stream.end_with(reading._cursors)
        with reading, pytest.raises(ConsumerTimeout):
            list(reading.arrow_batches())

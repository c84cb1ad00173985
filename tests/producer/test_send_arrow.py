"""Records from Arrow data: every column that they may have, in every type."""

import importlib
import signal
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from pyklient import (
    BrokerError,
    BufferFullError,
    ClosedError,
    ConfigurationError,
    Delivery,
    DeliveryError,
    MessageTooLargeError,
    TopicPartition,
)
from pyklient.error_codes import ErrorCode
from pyklient.kernel import murmur2, read_records
from tests.net.scripted import HANG_UP, SILENCE
from tests.producer.script import TOPIC, LoseAnswer, ProduceBroker, Refuse, producing

pytestmark = pytest.mark.both_kernels

pyarrow: Any = importlib.import_module("pyarrow")

BINARIES = [
    pyarrow.binary(),
    pyarrow.large_binary(),
    pyarrow.binary_view(),
    pyarrow.string(),
    pyarrow.large_string(),
    pyarrow.string_view(),
    pyarrow.dictionary(pyarrow.int8(), pyarrow.string()),
    pyarrow.dictionary(pyarrow.uint32(), pyarrow.large_binary()),
]
HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


class Frame:
    """A data frame of a library that pyklient does not know."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


class Block:
    """An object that provides a single batch."""

    def __init__(self, batch: Any) -> None:
        self.batch = batch

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.batch.__arrow_c_array__(requested_schema)


def arrived(broker: ProduceBroker) -> list[tuple[Any, ...]]:
    """Return (partition, timestamp, key, value, headers) of each record, in the order in which the records
    arrived."""
    return [
        (seen.partition, record.timestamp_ms, record.key, record.value, record.headers)
        for seen in broker.seen
        for record in read_records(seen.batch)
    ]


def test_every_column_becomes_a_field(broker: ProduceBroker) -> None:
    broker.partitions = 2
    table = pyarrow.table(
        {
            "headers": pyarrow.array([[("h", b"1"), ("", None)], None, []], HEADERS),
            "timestamp": pyarrow.array([17, 18, 19], pyarrow.timestamp("ms", "UTC")),
            "partition": pyarrow.array([1, 1, 1], pyarrow.int32()),
            "key": pyarrow.array([b"k", None, b""]),
            "value": pyarrow.array([b"a", b"", None]),
        }
    )
    with producing(broker) as producer:
        bulk = producer.send_arrow(TOPIC, table)
        assert bulk.result(30) == {TopicPartition(TOPIC, 1): [range(3)]}
        assert bulk.count == 3
    assert arrived(broker) == [
        (1, 17, b"k", b"a", (("h", b"1"), ("", None))),
        (1, 18, None, b"", ()),
        (1, 19, b"", None, ()),
    ]


@pytest.mark.parametrize("kind", BINARIES, ids=str)
def test_values_and_keys_may_be_of_any_type_of_bytes(broker: ProduceBroker, kind: Any) -> None:
    values = ["short", None, "longer than a view holds", "", "short"]
    cells = values if "string" in str(kind) else [value and value.encode() for value in values]
    column = pyarrow.array(cells, kind.value_type if pyarrow.types.is_dictionary(kind) else kind)
    if pyarrow.types.is_dictionary(kind):
        column = column.dictionary_encode().cast(kind)
    with producing(broker) as producer:
        producer.send_arrow(TOPIC, pyarrow.table({"value": column[:-1], "key": column[1:]})).result(30)
    encoded = [None if value is None else value.encode() for value in values]
    pairs = [(key, value) for _, _, key, value, _ in arrived(broker)]
    assert pairs == list(zip(encoded[1:], encoded[:-1], strict=True))


def test_values_of_fixed_size_and_of_no_type_are_bytes_too(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        producer.send_arrow(
            TOPIC,
            pyarrow.table(
                {"value": pyarrow.nulls(2), "key": pyarrow.array([b"ab", b"cd"], pyarrow.binary(2))}
            ),
        ).result(30)
    assert [(key, value) for _, _, key, value, _ in arrived(broker)] == [(b"ab", None), (b"cd", None)]


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        (pyarrow.array([5, 17], pyarrow.timestamp("s")), [5_000, 17_000]),
        (pyarrow.array([5, 17], pyarrow.timestamp("ms", "Asia/Tokyo")), [5, 17]),
        (pyarrow.array([5_999, 17_000], pyarrow.timestamp("us")), [5, 17]),
        (pyarrow.array([5_999_999, 17_000_000], pyarrow.timestamp("ns")), [5, 17]),
        (pyarrow.array([5, 17], pyarrow.uint8()), [5, 17]),
        (pyarrow.array([5, 17], pyarrow.uint64()), [5, 17]),
    ],
    ids=lambda given: str(given.type) if hasattr(given, "type") else "",
)
def test_timestamps_are_of_any_unit_or_milliseconds(
    broker: ProduceBroker, times: Any, expected: list[int]
) -> None:
    with producing(broker) as producer:
        producer.send_arrow(TOPIC, pyarrow.table({"value": [b"a", b"b"], "timestamp": times})).result(30)
    assert [time_ms for _, time_ms, *_ in arrived(broker)] == expected


def test_what_is_null_is_chosen_as_for_a_single_record(broker: ProduceBroker) -> None:
    broker.partitions = 5
    keys = [b"key %d" % number for number in range(20)]
    table = pyarrow.table(
        {
            "value": [b"%d" % number for number in range(40)],
            "key": [*keys, *[None] * 20],
            "partition": pyarrow.array([None] * 18 + [4] * 22, pyarrow.int64()),
            "timestamp": pyarrow.nulls(40),
            "headers": pyarrow.nulls(40),
        }
    )
    with producing(broker) as producer:
        producer.send_arrow(TOPIC, table).result(30)
        producer.send_arrow(TOPIC, table.slice(20).drop_columns("partition")).result(30)
    where = [murmur2(key) % 5 for key in keys[:18]] + [4] * 22
    records = arrived(broker)
    for number in range(5):
        expected = [b"%d" % index for index, partition in enumerate(where) if partition == number]
        assert [record[3] for record in records[:40] if record[0] == number] == expected
    assert len({record[0] for record in records[40:]}) == 1
    assert all(record[1] > 1_700_000_000_000 for record in records)


def test_slices_chunks_and_wide_lists_are_read_where_they_begin(broker: ProduceBroker) -> None:
    kind = pyarrow.large_list(
        pyarrow.struct([("value", pyarrow.large_binary()), ("key", pyarrow.large_string())])
    )
    numbers = range(3_000)
    table = pyarrow.table(
        {
            "value": pyarrow.chunked_array(
                [[b"%d" % n for n in numbers[:1_000]], [b"%d" % n for n in numbers[1_000:]]]
            ),
            "key": pyarrow.array([None if n % 3 else b"k" for n in numbers]),
            "timestamp": pyarrow.array([n if n % 2 else 7 for n in numbers]),
            "headers": pyarrow.chunked_array(
                [
                    pyarrow.array([[{"key": "n", "value": b"%d" % n}] * (n % 4) for n in part], kind)
                    for part in (numbers[:500], numbers[500:])
                ]
            ),
        }
    )
    with producing(broker) as producer:
        bulk = producer.send_arrow(TOPIC, table.slice(301, 2_000))
        assert bulk.count == 2_000
        bulk.result(30)
    assert [record[1:] for record in arrived(broker)] == [
        (n if n % 2 else 7, None if n % 3 else b"k", b"%d" % n, (("n", b"%d" % n),) * (n % 4))
        for n in numbers[301:2_301]
    ]


SHAPES: dict[str, Callable[[Any], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.to_batches()[0],
    "reader": lambda table: table.to_reader(),
    "stream": Frame,
    "array": lambda table: Block(table.to_batches()[0]),
    "struct": lambda table: table.to_struct_array().combine_chunks(),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_data_come_from_whatever_speaks_arrow(broker: ProduceBroker, shape: str) -> None:
    table = pyarrow.table({"value": pyarrow.array(["a", "b", "c"], pyarrow.string_view())})
    with producing(broker) as producer:
        bulk = producer.send_arrow(TOPIC, SHAPES[shape](table), partition=0)
        assert bulk.result(30) == {TopicPartition(TOPIC, 0): [range(3)]}
    assert broker.stored[0] == [b"a", b"b", b"c"]


def test_a_table_without_rows_is_nothing(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        bulk = producer.send_arrow(TOPIC, pyarrow.table({"value": pyarrow.array([], pyarrow.binary())}))
        assert (bulk.count, bulk.done(), bulk.result(0)) == (0, True, {})
    assert not broker.seen


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "unknown": (
        {"value": [b"a"], "offset": [5]},
        ConfigurationError,
        r"'offset' \(int64\) is not one of .* drop the",
    ),
    "the index of a filtered pandas data frame": (
        {"value": [b"a"], "__index_level_0__": [1]},
        ConfigurationError,
        r"send frame\.reset_index\(drop=True\)",
    ),
    "no value": ({"key": [b"a"]}, ConfigurationError, "no column 'value'"),
    "value": ({"value": [5]}, TypeError, "'value' is int64; it must be binary or string"),
    "key": ({"value": [b"a"], "key": [1.5]}, TypeError, "'key' is double; it must be binary or string"),
    "partition": ({"value": [b"a"], "partition": [1.0]}, TypeError, "'partition' is double; .* an integer"),
    "timestamp": (
        {"value": [b"a"], "timestamp": ["now"]},
        TypeError,
        "'timestamp' is string; .* a timestamp",
    ),
    "headers": (
        {"value": [b"a"], "headers": [["h"]]},
        TypeError,
        "'headers' is list.*; it must be list<struct",
    ),
    "names": (
        {"value": [b"a"], "headers": [[{"key": b"h", "value": b""}]]},
        TypeError,
        "must be list<struct<key: string, value: binary>>",
    ),
    "fields": ({"value": [b"a"], "headers": [[{"name": "h"}]]}, TypeError, "list<struct<key: string, value"),
}


@pytest.mark.parametrize("case", WRONG)
def test_columns_that_records_do_not_have_are_named_and_nothing_is_sent(
    broker: ProduceBroker, case: str
) -> None:
    columns, error, message = WRONG[case]
    with producing(broker) as producer:
        with pytest.raises(error, match=message):
            producer.send_arrow(TOPIC, pyarrow.table(columns))
        producer.flush(60)
    assert not broker.seen


def test_a_column_that_is_there_twice_is_none_to_choose_from(broker: ProduceBroker) -> None:
    table = pyarrow.Table.from_arrays([pyarrow.array([b"a"])] * 2, ["value", "value"])
    with producing(broker) as producer, pytest.raises(ConfigurationError, match="2 columns called 'value'"):
        producer.send_arrow(TOPIC, table)


@pytest.mark.parametrize(
    "data", [[b"a"], pyarrow.array([b"a"]), {"value": [b"a"]}, Frame(pyarrow.chunked_array([[1]]))]
)
def test_what_is_no_table_is_a_type_error(broker: ProduceBroker, data: Any) -> None:
    with (
        producing(broker) as producer,
        pytest.raises(TypeError, match=r"as a table with columns|takes a pyarrow"),
    ):
        producer.send_arrow(TOPIC, data)


def test_without_pyarrow_the_error_says_how_to_get_it(
    broker: ProduceBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with (
        producing(broker) as producer,
        pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[arrow\]' in the clone"),
    ):
        producer.send_arrow(TOPIC, object())


@pytest.mark.parametrize("option", ["key_encoder", "value_encoder"])
def test_encoders_have_no_say_in_columns(broker: ProduceBroker, option: str) -> None:
    with (
        producing(broker, **{option: str.encode}) as producer,
        pytest.raises(ConfigurationError, match="key_encoder or a value_encoder"),
    ):
        producer.send_arrow(TOPIC, pyarrow.table({"value": [b"a"]}))


@pytest.mark.parametrize(
    ("column", "cells", "error", "message"),
    [
        ("partition", [0, 1], ConfigurationError, "partition 1 of topic 'clicks' does not exist: its only"),
        ("partition", [0, -1], ConfigurationError, "partition -1 of topic"),
        ("timestamp", [0, -1], ConfigurationError, "timestamp_ms=-1 is out of range"),
        ("key", [b"", bytes(3_000)], MessageTooLargeError, "above max_request_size=2,000"),
    ],
)
def test_a_row_that_cannot_be_sent_is_an_error_and_what_went_before_stands(
    broker: ProduceBroker, column: str, cells: list[Any], error: type[Exception], message: str
) -> None:
    with producing(broker, max_request_size=2_000) as producer:
        with pytest.raises(error, match=message) as caught:
            producer.send_arrow(TOPIC, pyarrow.table({"value": [b"a", b"b"], column: cells}))
        producer.flush(60)
    assert caught.value.__notes__ == ["1 record was sent by this send_arrow before the error"]
    assert broker.stored[0] == [b"a"]


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("partition", pyarrow.array([0, 1 << 63], pyarrow.uint64()), "column 'partition': .*not in range"),
        ("timestamp", pyarrow.array([0, 1 << 60], pyarrow.timestamp("s")), "column 'timestamp': "),
        ("headers", pyarrow.array([[], [(None, b"")]], HEADERS), "a header whose name is null"),
        ("headers", pyarrow.array([[], [None]], HEADERS), "a header whose name is null"),
    ],
)
def test_cells_that_no_record_can_hold_are_found_before_their_batch_is_sent(
    broker: ProduceBroker, column: str, cells: Any, message: str
) -> None:
    with producing(broker) as producer:
        with pytest.raises(ValueError, match=message):
            producer.send_arrow(TOPIC, pyarrow.table({"value": [b"a", b"b"], column: cells}))
        producer.flush(60)
    assert not broker.seen


def test_partition_is_given_once(broker: ProduceBroker) -> None:
    broker.partitions = 2
    table = pyarrow.table({"value": [b"a"], "key": [b"k"]})
    with producing(broker) as producer:
        for partition in (0, 1):
            producer.send_arrow(TOPIC, table, partition=partition).result(30)
        both = table.append_column("partition", pyarrow.array([0]))
        with pytest.raises(ConfigurationError, match="both as a column and as an argument"):
            producer.send_arrow(TOPIC, both, partition=0)
        one: Any = "one"
        with pytest.raises(TypeError, match="partition must be a whole number, not 'one'"):
            producer.send_arrow(TOPIC, table, partition=one)
        with pytest.raises(ConfigurationError, match="partition -1 of topic"):
            producer.send_arrow(TOPIC, table, partition=-1)
    assert broker.stored[0] == broker.stored[1] == [b"a"]


def test_a_partitioner_is_asked_for_each_row(broker: ProduceBroker) -> None:
    broker.partitions = 3
    with producing(broker, partitioner=lambda topic, key, count: len(key)) as producer:
        producer.send_arrow(
            TOPIC, pyarrow.table({"value": [b"a", b"b", b"c"], "key": ["", "xx", "x"]})
        ).result(30)
    assert [broker.stored[number] for number in range(3)] == [[b"a"], [b"c"], [b"b"]]


def test_a_stream_that_breaks_off_leaves_what_it_gave_before(broker: ProduceBroker) -> None:
    (batch,) = pyarrow.table({"value": [b"a", b"b"]}).to_batches()

    def batches() -> Iterator[Any]:
        yield batch
        raise ZeroDivisionError

    reader = pyarrow.RecordBatchReader.from_batches(batch.schema, batches())
    with producing(broker) as producer:
        with pytest.raises(ZeroDivisionError) as caught:
            producer.send_arrow(TOPIC, reader)
        producer.flush(60)
    assert caught.value.__notes__ == ["2 records were sent by this send_arrow before the error"]
    assert broker.stored[0] == [b"a", b"b"]


def test_a_full_buffer_is_waited_for_and_no_row_is_dropped(broker: ProduceBroker) -> None:
    broker.partitions = 3
    values = [b"%0100d" % number for number in range(20_000)]
    table = pyarrow.table({"value": values, "key": [b"%d" % (number % 7) for number in range(20_000)]})
    with producing(broker, buffer_memory=100_000, batch_size=10_000) as producer:
        bulk = producer.send_arrow(TOPIC, table)
        ranges = bulk.result(30)
    assert bulk.count == 20_000
    for at, found in ranges.items():
        assert found == [range(len(broker.stored[at.partition]))]
        mine = [
            value for index, value in enumerate(values) if murmur2(b"%d" % (index % 7)) % 3 == at.partition
        ]
        assert broker.stored[at.partition] == mine


def test_a_buffer_that_stays_full_is_an_error_and_every_row_is_accounted_for(broker: ProduceBroker) -> None:
    broker.faults.extend([LoseAnswer(SILENCE)] * 100)
    table = pyarrow.table({"value": [bytes(100)] * 2_000})
    with producing(broker, buffer_memory=50_000, batch_size=5_000, max_block_ms=1500) as producer:
        with pytest.raises(BufferFullError, match="max_block_ms=1500") as caught:
            producer.send_arrow(TOPIC, table)
        waiting = sum(batch.count for batch in producer._accumulator.unfinished())
        assert caught.value.__notes__ == [f"{waiting} records were sent by this send_arrow before the error"]
        assert 200 < waiting < 300


def test_failures_are_counted_and_then_seen(broker: ProduceBroker) -> None:
    broker.faults.extend([None, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
    with producing(broker, batch_size=0) as producer:
        error = producer.send_arrow(TOPIC, pyarrow.table({"value": [b"x"] * 5})).exception(30)
        assert isinstance(error, DeliveryError)
        assert error.count == 1
        assert isinstance(error.errors[TOPIC], BrokerError)
        producer.flush(60)


def test_answers_that_are_lost_double_nothing(broker: ProduceBroker) -> None:
    broker.partitions = 2
    broker.faults.extend([None, LoseAnswer(HANG_UP), None, LoseAnswer(HANG_UP)])
    values = [b"%d" % number for number in range(5_000)]
    table = pyarrow.table({"value": values, "partition": [number % 2 for number in range(5_000)]})
    with producing(broker, batch_size=2_000) as producer:
        ranges = producer.send_arrow(TOPIC, table).result(20)
    assert ranges == {TopicPartition(TOPIC, number): [range(2_500)] for number in range(2)}
    assert [broker.stored[number] for number in range(2)] == [values[::2], values[1::2]]


def test_a_handler_of_a_signal_may_send_in_the_middle_and_its_records_are_its_own(
    broker: ProduceBroker,
) -> None:
    by_handler: list[Delivery] = []
    values = [b"%d" % number for number in range(20_000)]
    with producing(broker, linger_ms=1, batch_size=5_000) as producer:
        producer.send(TOPIC, b"first").result(30)

        def send(number: int, frame: FrameType | None) -> None:
            by_handler.append(producer.send(TOPIC, b"from the handler"))

        before = signal.signal(signal.SIGALRM, send)
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        try:
            bulk = producer.send_arrow(TOPIC, pyarrow.table({"value": values}))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        ranges = bulk.result(20)
        producer.flush(60)
    offsets = [offset for found in ranges[TopicPartition(TOPIC, 0)] for offset in found]
    assert [broker.stored[0][offset] for offset in offsets] == values
    assert bulk.count == len(values)
    assert len(broker.stored[0]) == 1 + len(values) + len(by_handler)


def test_after_close_nothing_is_taken(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        producer.send(TOPIC, b"a").result(30)
        producer.close()
        with pytest.raises(ClosedError):
            producer.send_arrow(TOPIC, pyarrow.table({"value": [b"x"]}))
    assert broker.stored[0] == [b"a"]

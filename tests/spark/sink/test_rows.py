"""Rows and record batches that become records, without Spark."""

import importlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from pyspark.sql import Row

from pyklient import ConfigurationError, DeliveryError, Producer, read
from pyklient.kernel import read_records
from pyklient.spark.deduplication import TaskOrigin, task_origin
from pyklient.spark.sink.arrow_batches import send_batches
from pyklient.spark.sink.rows import Record, send_rows
from tests.producer.script import TOPIC, ProduceBroker, Refuse
from tests.servers.fixtures import NewName
from tests.servers.reference import ReferenceBroker

pytestmark = pytest.mark.both_kernels

pyarrow: Any = importlib.import_module("pyarrow")

NOT_ALLOWED = 29
HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


@pytest.fixture
def broker() -> Iterator[ProduceBroker]:
    with ProduceBroker(partitions=2) as broker:
        broker.known_topics["views"] = 0
        yield broker


def sent(broker: ProduceBroker, rows: Iterable[Any], topic: str | None = TOPIC, **how: Any) -> list[Any]:
    """Return (value, key, headers) of each record that arrives, in order, from a single partition."""
    with broker.producer(partitioner=lambda _topic, _key, _count: 0) as producer:
        to_record, origin = how.get("to_record"), how.get("origin")
        count = send_rows(producer, rows, topic, to_record, origin)
        producer.flush(60)
    found = [record for seen in broker.seen for record in read_records(seen.batch)]
    assert len(found) == count
    return [(record.value, record.key, record.headers) for record in found]


def stamp(query: str, batch: int, partition: int, row: int) -> tuple[tuple[str, bytes], ...]:
    numbers = {"batch": batch, "partition": partition, "row": row}
    return (
        ("pyklient-query", query.encode()),
        *((f"pyklient-{name}", b"%d" % number) for name, number in numbers.items()),
    )


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (Row(value=b"v"), (b"v", None, ())),
        (Row(value=None, key="k"), (None, b"k", ())),
        (Row(key=b"k", value="é"), ("é".encode(), b"k", ())),
        (Row(offset=3, value=bytearray(b"v"), timestampType=0), (b"v", None, ())),
        (Row(value=b"v", headers=[Row(key="h", value=b"1")]), (b"v", None, (("h", b"1"),))),
        (Row(value=b"v", headers=None, key=None), (b"v", None, ())),
        (Record("v", key="k", headers=[("h", None)]), (b"v", b"k", (("h", None),))),
        ({"value": "v", "key": b"k", "headers": [{"value": b"1", "key": "h"}]}, (b"v", b"k", (("h", b"1"),))),
        (("k", b"v"), (b"v", b"k", ())),
        ("v", (b"v", None, ())),
        (b"v", (b"v", None, ())),
    ],
    ids=repr,
)
def test_a_row_of_any_kind_becomes_a_record(broker: ProduceBroker, row: Any, expected: Any) -> None:
    assert sent(broker, [row, row]) == [expected, expected]


def test_rows_keep_their_order_over_many_chunks(broker: ProduceBroker) -> None:
    rows = (Row(key=b"%d" % number, value=str(number)) for number in range(3_500))
    assert sent(broker, rows) == [(b"%d" % number, b"%d" % number, ()) for number in range(3_500)]


def test_rows_of_several_shapes_go_by_their_own_names(broker: ProduceBroker) -> None:
    rows = [Row(value=b"1", key=b"a"), Row(key=b"b", value=b"2"), ("c", "3"), "4", Row(value=b"5")]
    expected = [(b"1", b"a", ()), (b"2", b"b", ()), (b"3", b"c", ()), (b"4", None, ()), (b"5", None, ())]
    assert sent(broker, rows) == expected


def test_a_function_turns_rows_into_records(broker: ProduceBroker) -> None:
    rows = [Row(page="home", user=7), Row(page="cart", user=8)]

    def to_record(row: Any) -> Record:
        return Record(value=row.page, key=str(row.user))

    assert sent(broker, rows, to_record=to_record) == [(b"home", b"7", ()), (b"cart", b"8", ())]


def test_the_topic_that_is_named_counts_and_else_that_of_the_row(
    reference_broker: ReferenceBroker, new_name: NewName
) -> None:
    servers, one, two = reference_broker.bootstrap_servers, new_name(), new_name()
    rows = [Row(topic=one, value=b"1"), Row(topic=two, value=b"2")]
    with Producer(servers) as producer:
        send_rows(producer, rows, None, None, None)
        producer.flush(60)
        send_rows(producer, rows, two, None, None)
    assert [message.value for message in read(servers, one)] == [b"1"]
    assert [message.value for message in read(servers, two)] == [b"2", b"1", b"2"]


def test_partition_and_timestamp_of_a_row_are_the_records(broker: ProduceBroker) -> None:
    noon = datetime(2026, 1, 1, 12, 0, 0, 1_999, tzinfo=UTC)
    local = noon.astimezone().replace(tzinfo=None)  # as TIMESTAMP reaches a worker
    rows = [
        Row(value=b"1", partition=1, timestamp=noon),
        Row(value=b"2", partition=1, timestamp=local),
        Row(value=b"3", partition=0, timestamp=17),
    ]
    with broker.producer() as producer:
        send_rows(producer, rows, TOPIC, None, None)
        producer.flush(60)
    found = {
        record.value: (seen.partition, record.timestamp_ms)
        for seen in broker.seen
        for record in read_records(seen.batch)
    }
    milliseconds = int(noon.timestamp()) * 1000 + 1
    assert found == {b"1": (1, milliseconds), b"2": (1, milliseconds), b"3": (0, 17)}


@pytest.mark.parametrize(
    ("row", "topic", "message"),
    [
        (Row(page=b"v"), TOPIC, r"no column `value` \(their columns: page\)"),
        (Row(value=7), TOPIC, "column `value` must be STRING or BINARY, but a row has int"),
        (Row(value=b"v", key=1.5), TOPIC, "column `key` must be STRING or BINARY"),
        (Row(value=b"v"), None, "the rows have no topic"),
        (Row(value=b"v", topic=None), None, "column `topic` is null in some rows"),
        (1j, TOPIC, "a row is of type complex"),
        ((1, 2, 3), TOPIC, "a row is of type tuple"),
        ({"page": b"v"}, TOPIC, "no field `value`, only page"),
        (Row(value=b"v", headers=[Row(key="h", value=3)]), TOPIC, "`headers.value` must be STRING or BINARY"),
    ],
    ids=repr,
)
def test_rows_that_no_record_can_be_made_of_say_what_is_wrong(
    broker: ProduceBroker, row: Any, topic: str | None, message: str
) -> None:
    with broker.producer() as producer, pytest.raises((ConfigurationError, TypeError), match=message):
        send_rows(producer, [row], topic, None, None)
    assert broker.seen == []


def test_a_refusal_ends_a_long_partition_early(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(NOT_ALLOWED))
    drawn = 0

    def rows() -> Iterator[Row]:
        nonlocal drawn
        while True:
            drawn += 1
            yield Row(value=b"v" * 100)

    producer = broker.producer(linger_ms=0, buffer_memory=2_000_000)
    with pytest.raises(DeliveryError, match="not delivered"):
        send_rows(producer, rows(), TOPIC, None, None)
    assert drawn < 1_000_000
    with pytest.raises(DeliveryError):
        producer.close()


def test_a_micro_batch_of_a_query_that_is_not_known_needs_a_name() -> None:
    assert task_origin("nightly", "token", 5) == TaskOrigin("nightly", 5, 0)
    assert task_origin("nightly", "token") == TaskOrigin("nightly", 0, 0)
    with pytest.raises(ConfigurationError, match="Spark Connect does not pass it to foreachBatch: name the"):
        task_origin(None, "token", 5)


def test_headers_for_deduplication_number_the_rows_of_a_task(broker: ProduceBroker) -> None:
    rows = [Row(value=b"v", headers=[("own", b"1")] if number == 1 else None) for number in range(1_500)]
    found = sent(broker, rows, origin=TaskOrigin("q", 7, 3))
    expected = [stamp("q", 7, 3, number) for number in range(1_500)]
    expected[1] = (("own", b"1"), *expected[1])
    assert [headers for _, _, headers in found] == expected


def batch(**columns: Any) -> Any:
    return pyarrow.record_batch(columns)


def arrived(broker: ProduceBroker, batches: Iterable[Any], topic: str | None, **how: Any) -> list[Any]:
    with broker.producer(partitioner=lambda _topic, _key, _count: 0) as producer:
        count = send_batches(producer, batches, topic, how.pop("origin", None), **how)
        producer.flush(60)
    found = [record for seen in broker.seen for record in read_records(seen.batch)]
    assert len(found) == count
    return [(record.value, record.key, record.headers) for record in found]


def test_columns_that_no_record_has_are_passed_over(broker: ProduceBroker) -> None:
    batches = [batch(key=["a"], value=[b"1"], offset=[3], topic=["views"]), batch(key=["b"], value=[b"2"])]
    assert arrived(broker, batches, TOPIC) == [(b"1", b"a", ()), (b"2", b"b", ())]


def test_rows_of_a_batch_are_split_by_topic_in_their_order(broker: ProduceBroker) -> None:
    topics = ["views", TOPIC, "views", TOPIC]
    with broker.producer(partitioner=lambda _topic, _key, _count: 0) as producer:
        send_batches(producer, [batch(topic=topics, value=["1", "2", "3", "4"])], None, None)
        producer.flush(60)
    assert sorted(seen.values for seen in broker.seen) == [[b"1", b"3"], [b"2", b"4"]]


def test_batches_are_numbered_on_for_deduplication(broker: ProduceBroker) -> None:
    headers = pyarrow.array([[("own", b"1")], None], HEADERS)
    batches = [batch(value=["0", "1"], headers=headers), batch(value=["2"])]
    found = arrived(broker, batches, TOPIC, origin=TaskOrigin("q", 1, 2))
    assert [headers for _, _, headers in found] == [
        (("own", b"1"), *stamp("q", 1, 2, 0)),
        stamp("q", 1, 2, 1),
        stamp("q", 1, 2, 2),
    ]


@pytest.mark.parametrize(
    ("columns", "topic", "message"),
    [
        ({"value": ["v"]}, None, "the rows have no topic"),
        ({"value": ["v", "w"], "topic": ["views", None]}, None, "column `topic` is null in some rows"),
        ({"page": ["v"]}, TOPIC, "no column 'value'"),
        ({"value": [1]}, TOPIC, "column 'value' is int64"),
    ],
    ids=repr,
)
def test_batches_that_no_record_can_be_made_of_say_what_is_wrong(
    broker: ProduceBroker, columns: Any, topic: str | None, message: str
) -> None:
    with broker.producer() as producer, pytest.raises((ConfigurationError, TypeError), match=message):
        send_batches(producer, [batch(**columns)], topic, None)
    assert broker.seen == []

"""A producer with encoders and a partitioner: what is stored, and what an exception leaves."""

import itertools
import random
from typing import Any

import pytest

from pyklient.errors import ClosedError, ConfigurationError
from pyklient.kernel import murmur2, read_records
from pyklient.serialization import encode_json, encode_text
from tests.producer.script import TOPIC, ProduceBroker, producing

pytestmark = pytest.mark.both_kernels


def fail_at(number: int, error: type[BaseException]) -> Any:
    """Return an encoder for numbers that raises *error* for *number*."""

    def encode(value: int) -> bytes:
        if value == number:
            raise error
        return b"%d" % value

    return encode


@pytest.mark.parametrize("batch_size", [0, 300, 100_000])
def test_records_are_stored_in_order_across_many_batches(broker: ProduceBroker, batch_size: int) -> None:
    broker.partitions = 3
    with producing(
        broker,
        batch_size=batch_size,
        key_encoder=encode_text,
        value_encoder=encode_json,
        partitioner=lambda topic, key, count: int(key) % count,
    ) as producer:
        for number in range(500):
            producer.send(TOPIC, {"n": number}, str(number), headers=[("h", b"")])
        producer.send_many(TOPIC, [{"n": n} for n in range(500, 1_000)], map(str, range(500, 1_000)))
        producer.flush(60)
    for partition in range(3):
        expected = [b'{"n":%d}' % number for number in range(1_000) if number % 3 == partition]
        assert broker.stored[partition] == expected


def test_each_function_is_called_once_for_each_record(broker: ProduceBroker) -> None:
    calls: list[Any] = []

    def encode(value: int) -> bytes:
        calls.append(value)
        return bytes(100)

    def choose(topic: str, key: bytes | None, count: int) -> int:
        calls.append(key)
        return 0

    options: dict[str, Any] = {"batch_size": 1_000, "buffer_memory": 50_000, "partitioner": choose}
    with producing(broker, value_encoder=encode, **options) as producer:
        for number in range(1_000):
            producer.send(TOPIC, number)
        producer.send_many(TOPIC, range(1_000, 2_000))
        producer.flush(60)
    assert [call for call in calls if call is not None] == list(range(2_000))
    assert calls.count(None) == 2_000


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
@pytest.mark.parametrize("failing", ["key_encoder", "value_encoder"])
def test_an_exception_of_an_encoder_loses_no_other_record(
    broker: ProduceBroker, failing: str, error: type[BaseException]
) -> None:
    options: dict[str, Any] = {failing: fail_at(300, error)}
    with producing(broker, batch_size=500, **options) as producer:

        def arguments(number: int) -> tuple[Any, Any]:
            return (b"v%d" % number, number) if failing == "key_encoder" else (number, b"k")

        for number in range(600):
            if number == 300:
                with pytest.raises(error):
                    producer.send(TOPIC, *arguments(number), partition=0)
            else:
                producer.send(TOPIC, *arguments(number), partition=0)
        producer.flush(60)
        assert len(broker.stored[0]) == 599
        values, keys = zip(*[arguments(number) for number in range(600)], strict=True)
        with pytest.raises(error) as caught:
            producer.send_many(TOPIC, values, keys, partition=0)
        producer.flush(60)
    assert caught.value.__notes__ == ["300 records were sent by this send_many before the error"]
    prefix = b"v%d" if failing == "key_encoder" else b"%d"
    once = [prefix % number for number in range(600) if number != 300]
    assert broker.stored[0] == once + once[:300]


def test_an_encoder_that_returns_no_bytes_stops_send_many_at_its_record(broker: ProduceBroker) -> None:
    with producing(broker, value_encoder=lambda value: value or 5) as producer:
        with pytest.raises(ConfigurationError, match="value_encoder returned int for a bytes") as caught:
            producer.send_many(TOPIC, [b"a", bytearray(b"b"), b"", b"c"])
        producer.flush(60)
    assert caught.value.__notes__ == ["2 records were sent by this send_many before the error"]
    assert broker.stored[0] == [b"a", b"b"]


def test_a_wrong_choice_of_the_partitioner_stops_send_many_at_its_record(broker: ProduceBroker) -> None:
    broker.partitions = 2
    choices = iter([1, 0, 1, 2, 0])
    with producing(broker, partitioner=lambda *_: next(choices)) as producer:
        with pytest.raises(ConfigurationError, match="the partitioner chose 2 for topic 'clicks'") as caught:
            producer.send_many(TOPIC, [b"a", b"b", b"c", b"d", b"e"])
        producer.flush(60)
    assert caught.value.__notes__ == ["3 records were sent by this send_many before the error"]
    assert (broker.stored[0], broker.stored[1]) == ([b"b"], [b"a", b"c"])


def test_the_partitioner_is_not_asked_about_text_without_an_encoder(broker: ProduceBroker) -> None:
    with producing(broker, partitioner=lambda topic, key, count: len(key or b"") % count) as producer:
        for call in (
            lambda: producer.send(TOPIC, b"v", "key"),
            lambda: producer.send_many(TOPIC, [b"v"], ["key"]),
        ):
            with pytest.raises(TypeError, match="key is a str"):
                call()
        producer.send_many(TOPIC, [b"a", bytearray(b"b"), b"c"], [b"k", bytearray(b"k"), None]).result(30)
    assert broker.stored[0] == [b"a", b"b", b"c"]


def test_an_encoder_may_send_to_another_partition(broker: ProduceBroker) -> None:
    broker.partitions = 2

    def encode(value: Any) -> bytes:
        if isinstance(value, str):
            producer.send(TOPIC, b"about " + value.encode(), partition=1)
            return value.encode()
        return bytes(value)

    values = [f"value {number}" for number in range(1_500)]
    with producing(broker, batch_size=700, value_encoder=encode) as producer:
        for value in values:
            producer.send(TOPIC, value, partition=0)
        producer.send_many(TOPIC, values, partition=0)
        producer.flush(60)
    expected = [value.encode() for value in values] * 2
    assert broker.stored[0] == expected
    assert broker.stored[1] == [b"about " + value for value in expected]


def test_an_encoder_that_closes_the_producer_makes_send_raise(broker: ProduceBroker) -> None:
    def encode(value: bytes) -> bytes:
        if value == b"last":
            producer.close(10)
        return value

    with producing(broker, value_encoder=encode) as producer:
        producer.send(TOPIC, b"first")
        with pytest.raises(ClosedError):
            producer.send(TOPIC, b"last")
    assert broker.stored[0] == [b"first"]


def test_send_many_reads_its_iterables_chunk_by_chunk(broker: ProduceBroker) -> None:
    chance = random.Random(5)
    rows = [
        (
            b"%d" % number,
            chance.choice([None, b"%d" % (number % 9)]),
            chance.choice([None, [("h", b"%d" % number)]]),
        )
        for number in range(4_500)
    ]
    times = [chance.choice([7, 8]) for _ in rows]
    broker.partitions = 3
    with producing(broker, batch_size=3_000) as producer:
        values, keys, headers = map(iter, zip(*rows, strict=True))
        bulk = producer.send_many(TOPIC, values, keys, headers, timestamps_ms=iter(times))
        ranges = bulk.result(20)
    assert bulk.count == sum(len(run) for runs in ranges.values() for run in runs) == len(rows)
    stored: dict[int, list[Any]] = {0: [], 1: [], 2: []}
    for seen in broker.seen:
        stored[seen.partition] += [
            (each.value, each.key, list(each.headers), each.timestamp_ms) for each in read_records(seen.batch)
        ]
    sent = [
        (value, key, pairs or [], time_ms) for (value, key, pairs), time_ms in zip(rows, times, strict=True)
    ]
    for partition, found in stored.items():
        keyed = [record for record in sent if record[1] and murmur2(record[1]) % 3 == partition]
        assert [record for record in found if record[1]] == keyed
        others = [int(record[0]) for record in found if not record[1]]
        assert all(left < right for left, right in itertools.pairwise(others))
    assert sorted(map(repr, sent)) == sorted(repr(each) for found in stored.values() for each in found)


@pytest.mark.parametrize("raising", ["values", "keys", "headers"])
def test_the_records_before_an_exception_of_an_iterable_are_sent(broker: ProduceBroker, raising: str) -> None:
    def items(item: Any, name: str) -> Any:
        for _ in range(1_300 if name == raising else 2_000):
            yield item
        if name == raising:
            raise ZeroDivisionError

    with producing(broker) as producer:
        with pytest.raises(ZeroDivisionError) as caught:
            producer.send_many(TOPIC, items(b"v", "values"), items(b"k", "keys"), items([], "headers"))
        producer.flush(60)
    assert caught.value.__notes__ == ["1,300 records were sent by this send_many before the error"]
    assert len(broker.stored[0]) == 1_300

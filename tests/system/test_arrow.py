"""What goes out of columns is what is read, on every broker."""

import importlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyklient import Message, Producer, TopicPartition, read
from tests.servers.fixtures import NewTopic
from tests.servers.pool import Server

pytestmark = pytest.mark.both_kernels

pyarrow: Any = importlib.import_module("pyarrow")

HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def fields(message: Message) -> tuple[Any, ...]:
    return message.timestamp_ms, message.key, message.value, message.headers


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_table_is_read_back_as_it_was_sent(bootstrap: str, new_topic: NewTopic, codec: Any) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    rows = [
        (
            1_600_000_000_000 + number,
            chance.choice([None, b"", b"key %d" % chance.randrange(50)]),
            chance.choice([None, b"", chance.randbytes(chance.randrange(300))]),
            tuple(
                (name, chance.choice([None, b"", b"\x00\xff"]))
                for name in ("", "ключ")[: chance.randrange(3)]
            ),
            chance.choice([None, None, 2]),
        )
        for number in range(20_000)
    ]
    times, keys, values, headers, partitions = (list(column) for column in zip(*rows, strict=True))
    table = pyarrow.table(
        {
            "timestamp": pyarrow.array(times, pyarrow.timestamp("ms")),
            "key": pyarrow.array(keys, pyarrow.large_binary()),
            "value": pyarrow.array(values, pyarrow.binary()),
            "headers": pyarrow.array(headers, HEADERS),
            "partition": pyarrow.array(partitions, pyarrow.int32()),
        }
    )
    topic = new_topic(partitions=3)
    with Producer(bootstrap, compression_type=codec, batch_size=50_000) as producer:
        bulk = producer.send_arrow(topic, table)
        ranges = bulk.result(timeout=60)
    messages = list(read(bootstrap, topic, start=0))
    assert sorted((fields(message) for message in messages), key=lambda row: row[0]) == [
        row[:4] for row in rows
    ]
    for number in range(3):
        mine = [message for message in messages if message.partition == number]
        assert [message.timestamp_ms for message in mine] == sorted(message.timestamp_ms for message in mine)
        assert ranges[TopicPartition(topic, number)] == [range(len(mine))]
    chosen = {row[0] for row in rows if row[4] == 2}
    assert chosen <= {message.timestamp_ms for message in messages if message.partition == 2}


@pytest.mark.slow
@pytest.mark.restarts
def test_a_table_sent_while_the_broker_restarts_arrives_once_and_in_order(
    any_broker: Server, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    enough, restarted = threading.Event(), threading.Event()
    values = [b"%d" % number for number in range(200_000)]
    table = pyarrow.table({"value": values, "key": [b"%d" % (number % 9) for number in range(200_000)]})

    def batches() -> Iterator[Any]:
        for index, batch in enumerate(table.to_batches(max_chunksize=2_000)):
            if index == 50:
                enough.set()
                assert restarted.wait(60)
            yield batch

    def restart() -> None:
        assert enough.wait(60)
        any_broker.kill()
        any_broker.restart()
        restarted.set()

    thread = threading.Thread(target=restart, daemon=True)
    thread.start()
    # One at a time: a broker that was killed recognizes the last batch of a producer only, and would take
    # those before it, which it may have stored without an answer, a second time.
    options: dict[str, Any] = {"max_in_flight_requests_per_connection": 1, "reconnect_backoff_max_ms": 200}
    with Producer(bootstrap, batch_size=5_000, **options) as producer:
        bulk = producer.send_arrow(topic, pyarrow.RecordBatchReader.from_batches(table.schema, batches()))
        ranges = bulk.result(timeout=120)
    thread.join(60)
    assert sum(len(found) for runs in ranges.values() for found in runs) == len(values)
    messages = list(read(bootstrap, topic, start=0))
    assert sorted(int(message.value) for message in messages) == list(range(len(values)))
    for key in {message.key for message in messages}:
        numbers = [int(message.value) for message in messages if message.key == key]
        assert numbers == sorted(numbers)

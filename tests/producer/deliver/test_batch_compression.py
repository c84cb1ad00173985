"""The effect of ``compression_type`` on records: in requests, in a broker's log, and in memory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from pyklient.broker import Broker
from pyklient.kernel import Delivery, read_records
from pyklient.producer.producer import Producer
from pyklient.protocol.records import Compression, RecordBatch, iter_batches
from tests.producer.holding import HoldingBroker
from tests.producer.script import TOPIC, producing, wait_until

CODECS: Final = ["gzip", "snappy", "lz4", "zstd"]
VALUES: Final = [b"the same words over and over, %d. " % number * 20 for number in range(200)]
PLAIN: Final = sum(map(len, VALUES))


def stored_in(log: Path) -> list[RecordBatch]:
    """Return the batches in the segment files of a partition."""
    return [batch for path in sorted(log.glob("*.log")) for batch in iter_batches(path.read_bytes())]


@pytest.fixture
def reference(tmp_path: Path) -> Iterator[Broker]:
    """A reference broker whose files the test can read."""
    with Broker(data_dir=tmp_path / "data") as broker:
        yield broker


@pytest.mark.parametrize("codec", CODECS)
def test_records_lie_in_the_brokers_log_compressed_with_the_codec_asked_for(
    reference: Broker, codec: Any
) -> None:
    reference.create_topic(TOPIC)
    with Producer(reference.bootstrap_servers, compression_type=codec) as producer:
        producer.send_many(TOPIC, VALUES)
    (log,) = reference.data_dir.rglob(f"{TOPIC}-0")
    batches = stored_in(log)
    assert {batch.compression for batch in batches} == {Compression[codec.upper()]}
    assert [record.value for batch in batches for record in read_records(batch)] == VALUES
    assert sum(batch.size for batch in batches) < PLAIN / 4


def test_records_lie_in_the_brokers_log_as_they_are_where_no_codec_is_asked_for(reference: Broker) -> None:
    reference.create_topic(TOPIC)
    with Producer(reference.bootstrap_servers) as producer:
        producer.send_many(TOPIC, VALUES)
    (log,) = reference.data_dir.rglob(f"{TOPIC}-0")
    batches = stored_in(log)
    assert {batch.compression for batch in batches} == {Compression.NONE}
    assert sum(batch.size for batch in batches) > PLAIN


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_batches_in_flight_leave_their_memory_to_new_records(codec: Any) -> None:
    batch_size, in_flight = 65_536, 4
    value = bytes(1_000)
    options: dict[str, Any] = {
        "acks": 1,
        "enable_idempotence": False,
        "linger_ms": 60_000,
        "max_block_ms": 10_000,
        "batch_size": batch_size,
        "buffer_memory": in_flight * batch_size,
        "max_in_flight_requests_per_connection": in_flight,
    }
    with HoldingBroker() as broker, producing(broker, compression_type=codec, **options) as producer:
        producer.send(TOPIC, b"first")
        producer.flush(60)
        broker.hold()
        appender = producer._accumulator.appender
        # One record more than fits into the memory of all batches in flight, while none is answered.
        sent: list[Delivery] = []
        while len(sent) * len(value) <= options["buffer_memory"]:
            sent.append(producer.send(TOPIC, value))
        wait_until(lambda: broker.unanswered == in_flight)
        # What is in flight takes what it was compressed to; beside it there is one batch under construction.
        assert appender.used_memory < 2 * batch_size
        broker.let_go()
        producer.flush(60)
        assert [delivery.result(30).offset for delivery in sent] == list(range(1, len(sent) + 1))
        assert appender.used_memory == 0

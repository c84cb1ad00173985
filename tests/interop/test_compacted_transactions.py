"""Transactions in a compacted topic, from which Kafka's log cleaner has removed markers."""

import itertools
import time
from collections.abc import Iterable
from typing import Any

import confluent_kafka
import pytest

from pyklient import ConsumerConnector, Message, Producer, SimpleConsumer, TopicPartition, read
from pyklient.config import ClientConfig
from pyklient.net.dialogue import Ask, Dialogue, Refresh
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import FetchRequest
from pyklient.protocol.records import iter_batches
from tests.interop.transactional_logs import FORMS, Found, RandomLog, javas, librdkafkas
from tests.interop.transactions import begin, transactional
from tests.oracles.process import Oracle
from tests.run.seed import dice
from tests.servers.fixtures import NewTopic
from tests.servers.process import wait_until
from tests.servers.topics import await_transaction_ends

pytestmark = [pytest.mark.brokers(min="4.3", needs=["compaction", "transactions"]), pytest.mark.slow]


def fill(bootstrap: str, topic: str) -> None:
    """Write transactions of two producers. One producer leaves its transaction to a successor, which aborts
    it: the marker then has another epoch than the records, and the cleaner keeps its batch after removing its
    record."""
    producer, left_open = transactional(bootstrap, f"{topic}-0"), transactional(bootstrap, f"{topic}-1")
    begin(producer, topic, "kept")
    producer.commit_transaction(30)
    begin(left_open, topic, "left open")
    transactional(bootstrap, f"{topic}-1")
    begin(producer, topic, "kept too")
    producer.commit_transaction(30)
    begin(producer, topic, "aborted")
    producer.abort_transaction(30)


def has_emptied_marker(bootstrap: str, topic: str) -> bool:
    """Return True if a fetch from the start returns a control batch without records, and aborted
    transactions."""
    config = ClientConfig.from_options({"bootstrap_servers": bootstrap})
    client = NetworkClient(config)
    try:
        answer = client.play(_fetch(topic), 10)
    finally:
        client.close()
    batches = list(iter_batches(answer.records or b""))
    assert not answer.error_code
    return bool(answer.aborted_transactions) and any(
        batch.is_control and not batch.count for batch in batches
    )


def _fetch(topic: str) -> Dialogue[Any]:
    metadata = yield Refresh([topic])
    leader = metadata.leader(TopicPartition(topic, 0))
    assert leader is not None
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=[partition])]
    response = yield Ask(leader.id, FetchRequest(isolation_level=1, topics=topics), max_version=12)
    return response.responses[0].partitions[0]


def librdkafka_reads(bootstrap: str, topic: str, last: bytes) -> list[bytes | None]:
    """Return the values that librdkafka's consumer hands out under read_committed, up to *last*."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": topic, "isolation.level": "read_committed"}
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        values: list[bytes | None] = []
        while last not in values:
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None
            values.append(message.value())
        return values
    finally:
        consumer.close()


def without_ticks(values: Iterable[bytes | None]) -> list[bytes | None]:
    """Return *values* without those that only roll segments, because the cleaner goes on removing them."""
    return [value for value in values if value != b"tick"]


COMPACTED: dict[str, Any] = {
    "cleanup_policy": "compact",
    "delete_retention_ms": 0,
    "min_cleanable_dirty_ratio": 0.001,
    "segment_ms": 500,
    "min_compaction_lag_ms": 0,
}


def test_markers_that_the_log_cleaner_has_emptied_are_passed_over(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(**COMPACTED)
    fill(bootstrap, topic)
    ticks = itertools.count()
    with Producer(bootstrap) as producer:

        def cleaned() -> bool:
            """Send another record, which rolls the segment if that is due, so that it can be cleaned. Return
            True if the log is clean."""
            producer.send(topic, b"tick", key=b"%d" % (next(ticks) % 2)).result(timeout=30)
            return has_emptied_marker(bootstrap, topic)

        wait_until(cleaned, 60, "a marker that the cleaner has emptied", poll=0.3)
        producer.send(topic, b"last", key=b"last").result(timeout=30)
    expected = without_ticks(librdkafka_reads(bootstrap, topic, b"last"))
    assert expected == [b"kept", b"kept too", b"last"]
    committed: dict[str, Any] = {"isolation_level": "read_committed", "default_api_timeout_ms": 20_000}
    beginning = {TopicPartition(topic, 0): 0}
    messages = read(bootstrap, topic, start=beginning, **committed)
    assert without_ticks(message.value for message in messages) == expected
    table = read(bootstrap, topic, start=beginning, **committed).to_arrow()
    assert without_ticks(table.column("value").to_pylist()) == expected
    with ConsumerConnector(
        bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **committed
    ) as connector:
        values = (message.value for message in connector.stream(topic))
        assert without_ticks(itertools.takewhile(lambda value: value != b"last", values)) == expected[:-1]
    with SimpleConsumer(bootstrap) as consumer:
        assert b"kept" in [message.value for message in consumer.fetch(topic, 0, 0)]


def check_reading(read: list[Found], committed: dict[int, Found]) -> None:
    """Check what was read while the log was cleaned: committed records alone, in order, and the last value of
    each key, unless a tombstone has removed it."""
    assert [each.offset for each in read] == sorted({each.offset for each in read})
    assert {each.offset: each for each in read}.items() <= committed.items()
    newest = {each.key: each for each in sorted(committed.values())}
    found = {each.key: each for each in read}
    assert {key: found.get(key) for key, each in newest.items() if each.value is not None} == {
        key: each for key, each in newest.items() if each.value is not None
    }


@pytest.mark.long
def test_a_log_with_transactions_is_read_as_by_javas_consumer_while_it_is_cleaned(
    bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(**COMPACTED)
    where, seen = TopicPartition(topic, 0), list[Found]()
    fill(bootstrap, topic)  # with producers that write nothing more, whose markers the cleaner empties
    await_transaction_ends(bootstrap, topic)
    log = RandomLog(bootstrap, topic, dice("compacted"))
    log.committed.update((each.offset, each) for each in librdkafkas(bootstrap, topic, 0, "read_committed"))
    small: dict[str, Any] = {"max_partition_fetch_bytes": 300, "prefetch_max_bytes": 600}
    with ConsumerConnector(bootstrap, isolation_level="read_committed", **small) as connector:
        batches = connector.assign([where], start="beginning").batches(max_records=5, timeout=0.05)

        def cleaned() -> bool:
            """Write and read a bit. Return True if the log is clean and has an emptied marker."""
            log.step()
            seen.extend(map(found_in, next(batches)))
            return has_emptied_marker(bootstrap, topic)

        wait_until(cleaned, 90, "a marker that the cleaner has emptied", poll=0.1)
        log.end()
        await_transaction_ends(bootstrap, topic)
        deadline = time.monotonic() + 60
        while not seen or seen[-1].offset < max(log.committed):
            assert time.monotonic() < deadline
            seen.extend(map(found_in, next(batches)))
    check_reading(seen, log.committed)
    with Oracle("4.3.1", "ConsumerOracle.java") as oracle:

        def read_alike() -> bool:
            """Compare all ways to read, if the cleaner does nothing meanwhile. Return False if it does."""
            before = javas(oracle, bootstrap, topic, 0, "read_committed", 300)
            end = read(bootstrap, topic, isolation_level="read_committed").bounds[where][1]
            options = {"isolation_level": "read_committed", "max_partition_fetch_bytes": 300}
            found = {name: form(bootstrap, where, 0, end, **options) for name, form in FORMS.items()}
            found["librdkafka"] = librdkafkas(bootstrap, topic, 0, "read_committed")
            if javas(oracle, bootstrap, topic, 0, "read_committed", 300) != before:
                return False
            check_reading(before, log.committed)
            assert len(before) < len(log.committed), "the cleaner has removed records"
            for name, each in found.items():
                assert each == before, name
            return True

        wait_until(read_alike, 120, "a log that the cleaner leaves alone")


def found_in(message: Message) -> Found:
    return Found(message.offset, message.key, message.value)

"""The warning of an open transaction that holds up a reader, on real brokers."""

import logging

import pytest

from pyklient import ConsumerConnector, TopicPartition
from tests.interop.transactions import begin, transactional
from tests.servers.fixtures import NewTopic
from tests.servers.pool import Server
from tests.servers.process import wait_until

pytestmark = pytest.mark.brokers(needs=["transactions"])

BEGAN, ENDED = "open_transaction_wait_began", "open_transaction_wait_ended"


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if getattr(record, "event", None) == name]


def test_the_warning_names_the_partition_and_the_producer(
    any_broker: Server, new_topic: NewTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = new_topic(partitions=2)
    producer = transactional(any_broker.bootstrap_servers, topic)
    begin(producer, topic, "before", partition=1)
    producer.commit_transaction(60)
    begin(producer, topic, "held", "up", partition=1)
    with ConsumerConnector(
        any_broker.bootstrap_servers,
        isolation_level="read_committed",
        open_transaction_warning_ms=300,
        consumer_timeout_ms=60_000,
    ) as connector:
        stream = connector.assign({topic: [0, 1]}, start="beginning")
        messages = iter(stream)
        assert next(messages).value == b"before"
        wait_until(lambda: events(caplog, BEGAN) != [], 60, "the warning")
        assert not events(caplog, ENDED)
        assert stream.lag() == {TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0}
        producer.commit_transaction(60)
        assert [next(messages).value for _ in range(2)] == [b"held", b"up"]
        wait_until(lambda: events(caplog, ENDED) != [], 60, "the end")
    [began], [ended] = events(caplog, BEGAN), events(caplog, ENDED)
    # A broker before Kafka 3.0 does not tell the transactional id.
    known = "2.8" not in any_broker.name
    for name, value in {
        "topic": topic,
        "partition": 1,
        "offset": 2,
        "epoch": 0,
        "transactional_id": topic if known else None,
    }.items():
        assert getattr(began, name) == value, name
    assert f"{topic}-1 has waited" in began.getMessage()
    assert f"producer id {began.producer}, epoch" in began.getMessage()  # type: ignore[attr-defined]
    assert (topic in began.getMessage().partition("it was begun")[2]) is known
    assert f"at offset 2 of {topic}-1 has ended" in ended.getMessage()

"""Offsets that another client's producer commits in a transaction in the name of a member of pyklient."""

import re
from typing import Any

import confluent_kafka
import pytest

from pyklient import ConsumerConnector, KafkaStream, KafkaTimeoutError, Producer, TopicPartition
from tests.interop.transactions import send_offsets, transactional
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.process import wait_until

pytestmark = pytest.mark.brokers(min="2.5", needs=["transactions"])

STILL_OPEN = "a transaction that commits these offsets is still open"


def connect(bootstrap: str, group: str, **options: Any) -> ConsumerConnector:
    return ConsumerConnector(
        bootstrap,
        group_id=group,
        **{
            "auto_offset_reset": "earliest",
            "consumer_timeout_ms": 60_000,
            "enable_auto_commit": False,
            **options,
        },
    )


def committed(stream: KafkaStream, where: TopicPartition) -> int | None:
    found = stream.committed(where)
    return None if found is None else found.offset


def numbers(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(count)])


def test_a_member_begins_after_the_offsets_that_its_transaction_committed(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    source, group = new_topic(), new_name()
    where = TopicPartition(source, 0)
    numbers(bootstrap, source, 4)
    producer = transactional(bootstrap, group)
    with connect(bootstrap, group, group_instance_id="one") as connector:
        stream = connector.stream(source)
        messages, metadata = iter(stream), connector.group_metadata()
        ends = {2: producer.abort_transaction, 3: producer.commit_transaction}
        for offset, end in ends.items():
            assert next(messages).value is not None
            producer.begin_transaction()
            send_offsets(producer, {where: offset}, metadata)
            end(60)
            assert committed(stream, where) == (offset if offset == 3 else None)
    with connect(bootstrap, group, group_instance_id="one") as connector:
        assert next(iter(connector.stream(source))).value == b"3"


def test_a_member_waits_for_the_transaction_that_has_offsets_of_its_partitions(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    source, group = new_topic(), new_name()
    where = TopicPartition(source, 0)
    numbers(bootstrap, source, 3)
    producer = transactional(bootstrap, group)
    with connect(bootstrap, group) as connector:
        messages = iter(connector.stream(source))
        metadata = connector.group_metadata()
        assert next(messages).value == b"0"
        producer.begin_transaction()
        send_offsets(producer, {where: 2}, metadata)
        stream = connector.stream_of(where)
        with pytest.raises(KafkaTimeoutError, match=re.escape(STILL_OPEN)):
            stream.committed(where, timeout=1)
    producer.commit_transaction(60)
    with connect(bootstrap, group) as connector:
        assert next(iter(connector.stream(source))).value == b"2"


def test_offsets_of_an_earlier_generation_are_refused(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    source, group = new_topic(partitions=2), new_name()
    producer = transactional(bootstrap, group)
    with connect(bootstrap, group) as connector:
        connector.stream(source)
        metadata = connector.group_metadata()
        producer.begin_transaction()
        with connect(bootstrap, group) as other:
            other.stream(source)
            wait_until(lambda: connector.group_metadata() != metadata, 60, "the next generation")
            with pytest.raises(confluent_kafka.KafkaException) as raised:
                send_offsets(producer, {TopicPartition(source, 0): 1}, metadata)
    error = raised.value.args[0]
    assert error.txn_requires_abort()
    producer.abort_transaction(60)

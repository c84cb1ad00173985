"""Brokers that go away and come back, and topics that are not ready, while clients use them."""

import itertools
import threading
import time
from typing import Any

import pytest

from pyklient import BrokerConnectionError, Delivery, KafkaTimeoutError, Message, Producer
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.pool import Server
from tests.servers.process import wait_until
from tests.servers.topics import leaders
from tests.system.reading import connector

pytestmark = pytest.mark.slow


def test_the_first_record_makes_its_topic_and_waits_for_a_leader(bootstrap: str, new_name: NewName) -> None:
    topic, group = new_name(), new_name()
    with Producer(bootstrap) as producer:
        stored = producer.send(topic, b"first").result(timeout=30)
        assert (stored.topic, stored.offset) == (topic, 0)
    with connector(bootstrap, group) as reader:
        assert next(iter(reader.stream(topic))).value == b"first"


@pytest.mark.restarts
def test_records_sent_while_the_broker_restarts_arrive_once_and_in_order(
    any_broker: Server, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    sent: list[Delivery] = []
    enough, restarted = threading.Event(), threading.Event()

    def produce(producer: Producer) -> None:
        for number in itertools.count():
            sent.append(producer.send(topic, b"%d" % number))
            if number == 2_000:
                enough.set()
            if restarted.is_set():
                break
            time.sleep(0.0005)

    # One at a time: a broker that was killed recognizes the last batch of a producer only, and would take
    # those before it, which it may have stored without an answer, a second time.
    options: dict[str, Any] = {"max_in_flight_requests_per_connection": 1, "reconnect_backoff_max_ms": 200}
    with Producer(bootstrap, batch_size=2_000, **options) as producer:
        thread = threading.Thread(target=produce, args=(producer,), daemon=True)
        thread.start()
        assert enough.wait(30)
        any_broker.kill()
        any_broker.restart()
        restarted.set()
        thread.join(30)
        producer.flush(timeout=60)
    assert [delivery.result(timeout=0).offset for delivery in sent] == list(range(len(sent)))
    with connector(bootstrap, new_name()) as reader:
        messages = list(itertools.islice(reader.stream(topic), len(sent)))
    assert [message.value for message in messages] == [b"%d" % number for number in range(len(sent))]


@pytest.mark.restarts
def test_a_group_goes_on_when_its_broker_comes_back(
    any_broker: Server, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic(partitions=2)

    def produce(first: int) -> None:
        with Producer(bootstrap) as producer:
            for number in range(first, first + 100):
                producer.send(topic, b"%d" % number, partition=number % 2)

    with connector(bootstrap, new_name(), enable_auto_commit=False) as reader:
        stream = reader.stream(topic)
        produce(0)
        before = list(itertools.islice(stream, 100))
        reader.commit_offsets()
        any_broker.kill()
        any_broker.restart()
        produce(100)
        after: list[Message] = []
        while {message.value for message in after} < {b"%d" % number for number in range(100, 200)}:
            after.append(next(iter(stream)))
        reader.commit_offsets()
    assert sorted(int(message.value) for message in before) == list(range(100))
    assert sorted(int(message.value) for message in after) == list(range(100, 200))


@pytest.mark.restarts
def test_a_send_that_a_stopped_broker_never_takes_fails_within_its_time(
    any_broker: Server, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with Producer(
        bootstrap,
        linger_ms=0,
        request_timeout_ms=1_500,
        delivery_timeout_ms=5_000,
        retry_backoff_max_ms=100,
        reconnect_backoff_max_ms=200,
    ) as producer:
        producer.send(topic, b"before").result(timeout=30)
        any_broker.kill()
        started = time.monotonic()
        try:
            error = producer.send(topic, b"lost").exception(timeout=30)
            assert isinstance(error, KafkaTimeoutError | BrokerConnectionError)
            assert topic in str(error)
            assert time.monotonic() - started < 20
        finally:
            any_broker.restart()
        wait_until(lambda: leaders(bootstrap, topic).get(0, -1) >= 0, 60, "a leader")
        assert producer.send(topic, b"after").result(timeout=60).offset == 1

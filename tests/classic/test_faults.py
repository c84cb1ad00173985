"""Asynchronous classic producers while a broker stands still, is killed, or finds a batch too large."""

import time

import pytest

import pyklient
from pyklient import KeyedMessage, Producer
from tests.classic.loads import Dropped, accepts, stored
from tests.servers.fixtures import StartReference
from tests.servers.process import wait_until
from tests.servers.topics import create_topic

_QUEUE = 2000
_BATCH = 200


def properties(bootstrap: str, **more: object) -> dict[str, object]:
    return {
        "metadata.broker.list": bootstrap,
        "producer.type": "async",
        "request.required.acks": "1",
        "queue.buffering.max.messages": _QUEUE,
        "batch.num.messages": _BATCH,
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@pytest.mark.parametrize("seconds", [6, pytest.param(60, marks=pytest.mark.long)])
def test_while_a_broker_stands_still_the_queue_is_bounded_and_full_and_what_is_confirmed_is_there(
    start_reference: StartReference, seconds: int
) -> None:
    broker = start_reference()
    topic = create_topic(broker.bootstrap_servers, "stalled", 1)
    dropped = Dropped()
    accepted: list[bytes] = []
    full = most = 0
    given = properties(
        broker.bootstrap_servers,
        queue_enqueue_timeout_ms=0,
        request_timeout_ms=500,
        message_send_max_retries=1,
    )
    with Producer.from_properties(given, "0.8", callback_handler=dropped) as producer:
        producer.send(KeyedMessage(topic, b"first"))
        wait_until(lambda: bool(stored(broker.bootstrap_servers, topic)), 60, "the first message")
        began = time.monotonic()
        broker.process.pause()
        while time.monotonic() < began + seconds:
            value = b"%d" % len(accepted)
            given_up = len(dropped.values)
            if accepts(producer, KeyedMessage(topic, value)):
                accepted.append(value)
            else:
                full += 1
            most = max(most, len(accepted) - given_up)
        broker.process.resume()
        wait_until(lambda: accepts(producer, KeyedMessage(topic, b"last")), 60, "space in the queue")
    assert full > 0
    # The queue, the batch that is being filled, the one in the event handler, and one that was just dropped.
    assert most <= _QUEUE + 3 * _BATCH
    found = stored(broker.bootstrap_servers, topic)
    assert b"last" in found
    assert set(accepted) - set(dropped.values) <= set(found)
    assert producer.dropped_count == len(dropped.values) > 0


def test_a_killed_broker_that_returns_gets_all_messages(start_reference: StartReference) -> None:
    broker = start_reference()
    topic = create_topic(broker.bootstrap_servers, "killed", 2)
    given = properties(broker.bootstrap_servers, message_send_max_retries=100, retry_backoff_ms=100)
    values = [b"%d" % number for number in range(5000)]
    with Producer.from_properties(given, "0.8") as producer:
        for number, value in enumerate(values):
            producer.send(KeyedMessage(topic, value))
            if number in (1000, 3000):
                broker.kill()
                broker.restart()
    assert producer.dropped_count == 0
    assert set(stored(broker.bootstrap_servers, topic)) == set(values)


@pytest.mark.parametrize("limit", [None, 20_000])
def test_a_batch_that_is_too_large_for_the_broker_is_sent_in_parts_in_order(
    start_reference: StartReference, limit: int | None
) -> None:
    """By default the parts are small enough from the start; a smaller limit of a topic is found out."""
    broker = start_reference()
    config = {} if limit is None else {"max_message_bytes": limit}
    topic = create_topic(broker.bootstrap_servers, "large", 1, config)
    given = properties(broker.bootstrap_servers, queue_buffering_max_messages=3000, batch_num_messages=3000)
    values = [b"%04d" % number + bytes(400 if limit is None else 20) for number in range(3000)]
    with Producer.from_properties(given, "0.8") as producer:
        producer.send(*(KeyedMessage(topic, value) for value in values))
    assert producer.dropped_count == 0
    found = [message.value for message in pyklient.read(broker.bootstrap_servers, topic)]
    assert found == values


def test_one_message_that_is_too_large_is_given_up_alone_with_what_follows_in_its_batch(
    start_reference: StartReference,
) -> None:
    broker = start_reference()
    topic = create_topic(broker.bootstrap_servers, "too-large", 1, {"max_message_bytes": 1000})
    dropped = Dropped()
    given = properties(broker.bootstrap_servers, message_send_max_retries=0)
    with Producer.from_properties(given, "0.8", callback_handler=dropped) as producer:
        producer.send(*(KeyedMessage(topic, value) for value in (b"1", b"2", bytes(2000), b"4")))
    found = [message.value for message in pyklient.read(broker.bootstrap_servers, topic)]
    assert found + dropped.values == [b"1", b"2", bytes(2000), b"4"]
    assert dropped.values[0] == bytes(2000)

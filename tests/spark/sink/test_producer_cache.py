"""Producers that are used by several tasks: which task gets which producer, and how a failed one is
closed."""

import os
from collections.abc import Iterator
from typing import Any

import pytest

from pyklient import ClosedError, DeliveryError, Producer
from pyklient.spark.sink import producer_cache
from pyklient.spark.sink.producer_cache import UnconfirmedDeliveries, borrowed_producer
from tests.producer.script import TOPIC, ProduceBroker, Refuse

NOT_ALLOWED = 29


@pytest.fixture(autouse=True)
def none_idle() -> Iterator[None]:
    producer_cache.close_idle()
    yield
    producer_cache.close_idle()


@pytest.fixture
def broker() -> Iterator[ProduceBroker]:
    with ProduceBroker() as broker:
        yield broker


def options(broker: ProduceBroker, **more: Any) -> dict[str, Any]:
    return {"bootstrap_servers": broker.address, "linger_ms": 0, "retry_backoff_ms": 10, **more}


def test_the_same_options_get_the_same_producer_again(broker: ProduceBroker) -> None:
    found = []
    for _ in range(3):
        with borrowed_producer(options(broker)) as producer:
            producer.send(TOPIC, b"v")
            found.append(producer)
    assert len(set(map(id, found))) == 1
    assert broker.stored[0] == [b"v"] * 3


def test_the_block_ends_when_all_is_confirmed(broker: ProduceBroker) -> None:
    with borrowed_producer(options(broker, linger_ms=60_000, delivery_timeout_ms=120_000)) as producer:
        delivery = producer.send(TOPIC, b"v")
        assert not delivery.done()
    assert delivery.done()


def test_other_options_get_another_producer(broker: ProduceBroker) -> None:
    with borrowed_producer(options(broker)) as first:
        pass
    with borrowed_producer(options(broker, acks=1)) as second:
        assert second is not first
    assert producer_cache.idle_count() == 2


def test_functions_are_told_apart_by_the_token(broker: ProduceBroker) -> None:
    found: list[Producer] = []
    for token in ("one", "one", "two"):
        with borrowed_producer(
            options(broker, partitioner=lambda _topic, _key, _count: 0), token
        ) as producer:
            found.append(producer)
    assert found[0] is found[1]
    assert found[2] is not found[0]


def test_a_list_of_brokers_is_an_option_like_others(broker: ProduceBroker) -> None:
    with borrowed_producer(options(broker, bootstrap_servers=[broker.address])) as first:
        pass
    with borrowed_producer(options(broker, bootstrap_servers=[broker.address])) as second:
        assert first is second


def test_two_at_a_time_never_share_a_producer(broker: ProduceBroker) -> None:
    with borrowed_producer(options(broker)) as kept:
        pass
    with borrowed_producer(options(broker)) as outer, borrowed_producer(options(broker)) as inner:
        assert outer is kept
        assert outer is not inner
    assert producer_cache.idle_count() == 1
    with pytest.raises(ClosedError):
        outer.send(TOPIC, b"v")


def test_only_so_many_are_kept_and_the_others_closed(broker: ProduceBroker) -> None:
    found = []
    for number in range(producer_cache.MAX_IDLE + 2):
        with borrowed_producer(options(broker, client_id=f"c{number}")) as producer:
            found.append(producer)
    assert producer_cache.idle_count() == producer_cache.MAX_IDLE
    for producer in found[:2]:
        with pytest.raises(ClosedError):
            producer.send(TOPIC, b"v")
    with borrowed_producer(options(broker, client_id="c2")) as again:
        assert again is found[2]


def test_undelivered_records_raise_and_the_producer_is_not_used_again(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(NOT_ALLOWED))
    found = []

    def task(value: bytes) -> None:
        with borrowed_producer(options(broker)) as producer:
            found.append(producer)
            producer.send(TOPIC, value)

    with pytest.raises(DeliveryError, match=r"1 record was not delivered.*clicks"):
        task(b"lost")
    task(b"kept")
    assert found[0] is not found[1]
    assert broker.stored[0] == [b"kept"]


def test_a_task_that_raises_sends_nothing_more(broker: ProduceBroker) -> None:
    def task() -> None:
        with borrowed_producer(options(broker, linger_ms=30_000)) as producer:
            producer.send(TOPIC, b"never")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        task()
    assert producer_cache.idle_count() == 0
    assert broker.stored[0] == []


def test_a_failure_shows_before_everything_is_sent(broker: ProduceBroker) -> None:
    with broker.producer(linger_ms=0) as producer:
        unconfirmed = UnconfirmedDeliveries()
        broker.faults.append(Refuse(NOT_ALLOWED))
        refused = producer.send(TOPIC, b"refused")
        unconfirmed.add(refused)
        assert refused.exception(30) is not None
        with pytest.raises(DeliveryError, match="not delivered"):
            unconfirmed.add(producer.send(TOPIC, b"next"))


def test_a_child_process_starts_with_producers_of_its_own(broker: ProduceBroker) -> None:
    with borrowed_producer(options(broker)) as producer:
        producer.send(TOPIC, b"parent")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            with borrowed_producer(options(broker)) as own:
                own.send(TOPIC, b"child")
            status = 0 if own is not producer else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with borrowed_producer(options(broker)) as again:
        again.send(TOPIC, b"parent")
    assert again is producer
    assert broker.stored[0] == [b"parent", b"child", b"parent"]

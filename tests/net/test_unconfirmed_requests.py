"""Brokers handle the requests that have no response before connections to them are closed or replaced."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

import pytest

from pyklient.net.backoff import Backoff
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import open_connection
from pyklient.net.connection.old_brokers import OldBrokers
from pyklient.net.connection.transport import Endpoint
from pyklient.net.connection_pool import Pool, Purpose
from pyklient.net.unconfirmed_requests import await_handled
from pyklient.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
)
from tests.net.scripted import HANG_UP, SILENCE, ScriptedBroker, config_for
from tests.servers.process import wait_until


@pytest.fixture
def brokers() -> Iterator[list[ScriptedBroker]]:
    """Three brokers. All have the same node id, so each can take the place of another."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(ScriptedBroker()) for _ in range(3)]
        for broker in brokers:
            broker.on(ProduceRequest, lambda _request: SILENCE)
            broker.on(ListOffsetsRequest, lambda _request: ListOffsetsResponse())
            broker.on(HeartbeatRequest, lambda _request: HeartbeatResponse())
        yield brokers


def pool_for(broker: ScriptedBroker, **options: object) -> Pool:
    config = config_for(broker, **options)
    return Pool(partial(open_connection, config, None, OldBrokers()), Backoff(0.01, 0.02), 2.0)


def produced_to(broker: ScriptedBroker, pool: Pool) -> Connection:
    """Return the connection to *broker* after a Produce request without a response."""
    connection = pool.get(Endpoint(1, broker.host, broker.port), Purpose.PRODUCE, 20)
    connection.submit(
        ProduceRequest(acks=0, timeout_ms=1), 8, lambda *_answer: None, timeout=5, expects_reply=False
    )
    return connection


def kinds(broker: ScriptedBroker) -> list[type]:
    return [type(request) for request in broker.requests]


def test_a_connection_is_replaced_when_the_broker_has_handled_its_requests(
    brokers: list[ScriptedBroker],
) -> None:
    pool = pool_for(brokers[0])
    produced_to(brokers[0], pool)
    produced_to(brokers[1], pool)
    assert kinds(brokers[0]) == [ProduceRequest, ListOffsetsRequest]
    pool.close(5)
    assert kinds(brokers[1]) == [ProduceRequest, ListOffsetsRequest]


def test_a_connection_whose_last_request_has_a_response_is_closed_at_once(
    brokers: list[ScriptedBroker],
) -> None:
    pool = pool_for(brokers[0])
    produced_to(brokers[0], pool).ask(HeartbeatRequest())
    pool.close(5)
    assert kinds(brokers[0]) == [ProduceRequest, HeartbeatRequest]


def test_a_connection_is_not_closed_as_idle_soon_after_a_request_without_a_response(
    brokers: list[ScriptedBroker],
) -> None:
    pool = pool_for(brokers[0], connections_max_idle_ms=1)
    connection = produced_to(brokers[0], pool)
    wait_until(lambda: brokers[0].count(ProduceRequest) == 1, 60, "a Produce request")
    assert connection.alive
    assert not connection.expired
    pool.close(5)
    assert kinds(brokers[0]) == [ProduceRequest, ListOffsetsRequest]


def test_a_broker_that_hangs_up_or_says_nothing_does_not_delay_the_others(
    brokers: list[ScriptedBroker],
) -> None:
    silent, rude, good = brokers
    silent.on(ListOffsetsRequest, lambda _request: SILENCE)
    rude.on(ListOffsetsRequest, lambda _request: HANG_UP)
    pools = [pool_for(broker) for broker in brokers]
    connections = [produced_to(broker, pool) for broker, pool in zip(brokers, pools, strict=True)]
    began = time.monotonic()
    errors = [str(error) for error in await_handled(connections, 2)]
    assert time.monotonic() - began < 20
    assert len(errors) == 2
    assert f"{silent.address} has not answered for 2 s after messages were sent with acks=0" in errors[0]
    assert f"{rude.address} has closed the connection after messages were sent with acks=0" in errors[1]
    assert [connection.alive for connection in connections] == [False, False, True]
    assert kinds(good) == [ProduceRequest, ListOffsetsRequest]
    for pool in pools:
        pool.close()

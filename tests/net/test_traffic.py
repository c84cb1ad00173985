"""A pool counts the traffic of its connections: requests, bytes, errors, throttle times, missing answers."""

from collections.abc import Iterator
from functools import partial

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerConnectionError, KafkaError
from pyklient.metrics import BrokerMetrics
from pyklient.metrics.traffic import by_broker
from pyklient.net.backoff import Backoff
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import open_connection
from pyklient.net.connection.old_brokers import OldBrokers
from pyklient.net.connection.transport import Endpoint
from pyklient.net.connection_pool import Pool, Purpose
from pyklient.protocol.messages import HeartbeatRequest, HeartbeatResponse
from tests.net.scripted import HANG_UP, ScriptedBroker, config_for


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


@pytest.fixture
def pool(broker: ScriptedBroker) -> Iterator[Pool]:
    pool = Pool(partial(open_connection, config_for(broker), None, OldBrokers()), Backoff(0, 0), 2.0)
    yield pool
    pool.close()


def counted(pool: Pool, broker: ScriptedBroker) -> BrokerMetrics:
    return by_broker(pool.traffic(), 0.0)[broker.node_id]


def endpoint_of(broker: ScriptedBroker) -> Endpoint:
    return Endpoint(broker.node_id, broker.host, broker.port)


def _ask(connection: Connection, by_reader: bool) -> None:
    if by_reader:
        connection.send(HeartbeatRequest(), timeout=20).result(20)
    else:
        connection.ask(HeartbeatRequest(), 20)


def test_responses_are_counted_with_errors_and_throttle_times(broker: ScriptedBroker, pool: Pool) -> None:
    answers = [HeartbeatResponse(throttle_time_ms=250), HeartbeatResponse(throttle_time_ms=500)]
    answers.append(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    left = iter(answers)
    broker.on(HeartbeatRequest, lambda request: next(left))
    connection = pool.get(endpoint_of(broker), Purpose.GROUP, 20)
    connection.ask(HeartbeatRequest(), 20)
    for _ in range(2):  # from here on a reader thread receives
        connection.send(HeartbeatRequest(), timeout=20).result(20)
    found = counted(pool, broker)
    assert found.throttle_time == 0.75
    assert found.errors == {"REBALANCE_IN_PROGRESS": 1}
    assert found.address == f"{broker.host}:{broker.port}"
    heartbeats = found.requests["Heartbeat"]
    assert (heartbeats.sent, heartbeats.answered, heartbeats.failed) == (3, 3, 0)
    assert heartbeats.latency.count == 3
    assert heartbeats.bytes_sent % 3 == heartbeats.bytes_received % 3 == 0


@pytest.mark.parametrize("by_reader", [False, True], ids=["alone", "with a reader thread"])
def test_requests_without_an_answer_and_attempts_to_connect_are_counted(
    broker: ScriptedBroker, pool: Pool, by_reader: bool
) -> None:
    broker.on(HeartbeatRequest, lambda request: HANG_UP)
    for _ in range(2):
        connection = pool.get(endpoint_of(broker), Purpose.GROUP, 20)
        with pytest.raises(KafkaError):
            _ask(connection, by_reader)
    broker.close()
    with pytest.raises(BrokerConnectionError):
        pool.get(endpoint_of(broker), Purpose.GROUP, 20)
    found = counted(pool, broker)
    heartbeats = found.requests["Heartbeat"]
    assert (heartbeats.sent, heartbeats.answered, heartbeats.failed) == (2, 0, 2)
    assert (found.connections, found.failed_connections) == (2, 1)


def test_the_connections_for_all_purposes_are_one_broker(broker: ScriptedBroker, pool: Pool) -> None:
    broker.on(HeartbeatRequest, lambda request: HeartbeatResponse())
    for purpose in (Purpose.GROUP, Purpose.OTHER):
        pool.get(endpoint_of(broker), purpose, 20).ask(HeartbeatRequest(), 20)
    found = counted(pool, broker)
    assert (found.connections, found.requests["Heartbeat"].answered) == (2, 2)
    assert found.requests["ApiVersions"].answered == 2
    assert found.bytes_sent == sum(each.bytes_sent for each in found.requests.values())

"""Requests whose responses go to a function: sent at once if that needs no wait, otherwise by another
thread."""

import socket
import threading
from typing import Any

import pytest

from pyklient.errors import BrokerConnectionError, ClosedError
from pyklient.metrics.traffic import Traffic
from pyklient.net.connection.connection import Connection, Remainder
from pyklient.net.connection.transport import Endpoint, TcpTransport
from pyklient.protocol.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    ProduceRequest,
    ProduceResponse,
)
from tests.net.connections import failure_of, opened
from tests.net.scripted import HANG_UP, ScriptedBroker
from tests.servers.process import wait_until


@pytest.mark.parametrize("ended", [False, True])
def test_what_would_take_a_wait_is_left_to_another_thread(ended: bool) -> None:
    """The peer reads only when the test tells it to: a thread that must not wait gets the remainder of its
    request back."""
    go_on = threading.Event()
    heard: list[Any] = []
    data = ProduceRequest.TopicProduceData.PartitionProduceData(records=bytes(20_000_000))
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData(partition_data=[data])])
    with ScriptedBroker() as broker:
        broker.on(HeartbeatRequest, lambda request: HeartbeatResponse() if go_on.wait(60) else HANG_UP)
        broker.on(ProduceRequest, lambda request: ProduceResponse(throttle_time_ms=5))
        connection = opened(broker)

        def submit(answer: str) -> Remainder | None:
            return connection.submit_at_once(
                request, 9, lambda *outcome: heard.append((answer, *outcome)), timeout=10
            )

        before = submit("first")  # nobody reads yet: starting that is a wait too
        assert before is not None
        busy = connection.send(HeartbeatRequest(), max_version=3)
        left, behind = submit("second"), submit("third")
        assert left is not None
        assert behind is not None
        closing = threading.Thread(target=connection.close)
        if ended:
            closing.start()  # it does not end before what is left has given up the right to send
            wait_until(lambda: not connection.alive, 60, "an ended connection", poll=0.01)
        go_on.set()
        rests = [threading.Thread(target=rest) for rest in (left, *(() if ended else (before, behind)))]
        for thread in rests:
            thread.start()
        for thread in rests:
            thread.join(30)
        wait_until(lambda: len(heard) == len(rests), 60, "an outcome for each", poll=0.01)
        assert sorted(answer for answer, *_ in heard) == (
            ["second"] if ended else ["first", "second", "third"]
        )
        for _, response, error in heard:
            assert isinstance(error, ClosedError) if ended else response.throttle_time_ms == 5
        assert isinstance(failure_of(busy), ClosedError) if ended else busy.result(20)
        if ended:
            closing.join(30)
        else:
            connection.close()


@pytest.mark.parametrize("answered_before", [False, True])
def test_a_broker_that_hangs_up_after_a_request_without_a_response_may_have_rejected_it(
    broker: ScriptedBroker, connection: Connection, answered_before: bool
) -> None:
    broker.on(ProduceRequest, lambda request: HANG_UP)
    if answered_before:
        connection.send(HeartbeatRequest()).result(20)
    connection.submit(ProduceRequest(), 9, lambda *_: None, timeout=2, expects_reply=False)
    wait_until(lambda: not connection.alive, 60, "an ended connection", poll=0.01)
    with pytest.raises(BrokerConnectionError, match="closed the connection; it may have rejected messages"):
        connection.send(HeartbeatRequest())


def test_a_small_request_goes_at_once_and_an_ended_connection_says_so(
    broker: ScriptedBroker, connection: Connection
) -> None:
    heard: list[Any] = []
    connection.send(HeartbeatRequest()).result(20)
    for number in range(3):
        request = HeartbeatRequest(generation_id=number)
        assert (
            connection.submit_at_once(request, 3, lambda *outcome: heard.append(outcome), timeout=20) is None
        )
    wait_until(lambda: len(heard) == 3, 60, "three answers", poll=0.01)
    assert [(response.throttle_time_ms, error) for response, error in heard] == [
        (0, None),
        (1, None),
        (2, None),
    ]
    connection.close()
    with pytest.raises(ClosedError):
        connection.submit_at_once(HeartbeatRequest(), 3, lambda *outcome: heard.append(outcome), timeout=20)
    assert len(heard) == 3


class OutOfMemory(TcpTransport):
    """A transport whose writes fail with an error that no transport expects."""

    def send(self, parts: Any, time_left: Any) -> None:
        raise MemoryError

    def send_at_once(self, parts: Any) -> Any:
        raise MemoryError


@pytest.mark.parametrize("at_once", [False, True])
def test_what_nobody_foresaw_in_a_write_is_told_once_and_ends_the_connection(at_once: bool) -> None:
    heard: list[Any] = []
    near, far = socket.socketpair()
    connection = Connection(
        Endpoint(1, "localhost", 1),
        OutOfMemory(near, "peer"),
        client_id="test",
        request_timeout=5,
        max_idle=60,
        max_response=1_000,
        traffic=Traffic(1),
    )
    connection.complete_setup({HeartbeatRequest.api_key: (0, 4)}, None, "")

    def submit() -> None:
        connection.submit(HeartbeatRequest(), 3, lambda *outcome: heard.append(outcome), timeout=20)

    def submit_at_once() -> None:
        connection.submit_at_once(HeartbeatRequest(), 3, lambda *outcome: heard.append(outcome), timeout=20)

    with far:
        connection._responses.start(5)
        (submit_at_once if at_once else submit)()
        ((response, error),) = heard
        assert response is None
        assert isinstance(error, BrokerConnectionError)
        assert "Heartbeat could not be sent to broker 1 at localhost:1: MemoryError()" in str(error)
        with pytest.raises(BrokerConnectionError):
            (submit_at_once if at_once else submit)()
        assert len(heard) == 1
        connection.close()

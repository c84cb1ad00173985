"""What a broker's queue knows of its broker, whatever the order in which it learns it."""

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

from pyklient.errors import BrokerConnectionError
from pyklient.net.backoff import Backoff
from pyklient.producer.broker_queue import BrokerQueue, InFlightRequest, RequestOptions, SenderCalls
from pyklient.protocol.messages import ProduceRequest, ProduceResponse

THROTTLE = 30.0
BACKOFF = 0.01


class Responses:
    """Notes what becomes of requests."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def apply(self, _batches: Any, _response: ProduceResponse, _node_id: int) -> None:
        self.heard.append("answered")

    def unanswered(self, _batches: Any, _error: Exception, *, in_doubt: bool) -> None:
        self.heard.append("in doubt" if in_doubt else "unsent")


class Bench:
    """A queue with two requests in flight, of which nothing is known yet."""

    def __init__(self) -> None:
        self.responses = Responses()
        calls = SenderCalls(lambda call: call(), lambda _: 1, lambda _: None, lambda _: None, lambda: None)
        options = RequestOptions(acks=1, timeout=1.0, max_in_flight=2, max_request_size=1)
        nobody: Any = None
        responses: Any = self.responses
        self.queue = BrokerQueue(1, nobody, options, Backoff(BACKOFF, BACKOFF), responses, calls)
        self.queue._in_flight = 2
        self.request = InFlightRequest({}, ProduceRequest(), 9, 0)

    def throttled(self) -> None:
        """The broker has answered, and wants to be left alone."""
        answer: Future[ProduceResponse] = Future()
        answer.set_result(ProduceResponse(throttle_time_ms=int(THROTTLE * 1000)))
        self.queue._answered(self.request, answer)

    def lost_connection(self) -> None:
        """The other request has not reached it."""
        self.queue._unsent(self.request, BrokerConnectionError("cut"))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([Bench.throttled, Bench.lost_connection], id="throttled-first"),
        pytest.param([Bench.lost_connection, Bench.throttled], id="cut-first"),
    ],
)
def test_a_lost_connection_does_not_end_the_rest_that_the_broker_asked_for(
    events: list[Callable[[Bench], None]],
) -> None:
    bench = Bench()
    begin = time.monotonic()
    for event in events:
        event(bench)
    assert bench.queue.rest_until >= begin + THROTTLE
    assert bench.queue._in_flight == 0
    assert sorted(bench.responses.heard) == ["answered", "unsent"]

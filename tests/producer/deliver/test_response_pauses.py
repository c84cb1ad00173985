"""How long the reader of a busy broker's responses pauses, for brokers of several speeds."""

import pytest

from pyklient.producer.deliver.response_pauses import ResponsePauses

IN_FLIGHT = 5


class BusyBroker:
    """A broker that needs *service* seconds for each request. The producer keeps *in_flight* requests in
    flight, and *pauses* decides how long its reader pauses."""

    def __init__(self, service: float, in_flight: int = IN_FLIGHT) -> None:
        self.pauses = ResponsePauses()
        self.service = service
        self.now = 0.0
        self._done = [self.now + (number + 1) * service for number in range(in_flight)]
        """The times at which the requests in flight are answered."""

    def burst(self) -> tuple[int, float]:
        """Let the reader wait for a response, handle all that have arrived, and pause. Return the number of
        the responses and the pause."""
        self.now = max(self.now, self._done[0])
        self.pauses.begin_burst(self.now)
        pause, handled = 0.0, 0
        while self._done[0] <= self.now:
            handled += 1
            self._done.pop(0)
            begin = max([self.now, *self._done[-1:]])
            self._done.append(begin + self.service)
            pause = self.pauses.after_response(len(self._done))
        self.now += pause
        return handled, pause


@pytest.mark.parametrize("service", [0.0005, 0.002, 0.005])
def test_the_reader_of_a_slow_broker_handles_several_responses_together(service: float) -> None:
    broker = BusyBroker(service)
    handled = [broker.burst()[0] for _ in range(200)][-50:]
    assert sum(handled) / len(handled) >= 2.5
    assert max(handled) < IN_FLIGHT, "a pause was so long that the broker had nothing to do"


def test_the_reader_of_a_fast_broker_never_pauses() -> None:
    broker = BusyBroker(0.0001)
    assert {broker.burst() for _ in range(200)} == {(1, 0.0)}


def test_nobody_pauses_for_a_broker_that_has_only_two_requests() -> None:
    broker = BusyBroker(0.005, in_flight=2)
    assert {broker.burst() for _ in range(200)} == {(1, 0.0)}


def test_pauses_become_shorter_when_the_broker_becomes_faster() -> None:
    broker = BusyBroker(0.005)
    slow = [broker.burst()[1] for _ in range(100)][-1]
    broker.service = 0.0001
    fast = [broker.burst()[1] for _ in range(100)][-1]
    assert slow > 0.01
    assert fast == 0.0


def test_a_pause_is_short_however_slow_the_broker_is() -> None:
    broker = BusyBroker(10.0)
    assert max(broker.burst()[1] for _ in range(100)) <= 0.02

"""Threads that want the same thing: one makes the attempt, and the others share its result or try
themselves."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from pyklient.errors import AuthenticationError, KafkaError, KafkaTimeoutError
from pyklient.net.single_flight import SingleFlight
from tests.net.waiters import wait_for_second


def is_final(error: KafkaError) -> bool:
    return not isinstance(error, KafkaTimeoutError)


class Attempts:
    """A SingleFlight whose first attempt lasts until ``end`` is called, while a second thread wants the same
    thing."""

    def __init__(self) -> None:
        self.flights: SingleFlight[str, str] = SingleFlight()
        self.begun = threading.Event()
        self.made = 0
        self._end = threading.Event()
        self._outcome: BaseException | None = None
        self._pool = ThreadPoolExecutor(2)

    def first(self) -> "Future[str]":
        def attempt() -> str:
            self.made += 1
            self.begun.set()
            assert self._end.wait(30)
            if self._outcome is not None:
                raise self._outcome
            return "first"

        future = self._pool.submit(self._run, attempt, 10)
        assert self.begun.wait(30)
        return future

    def second(self, timeout: float = 10) -> "Future[str]":
        def attempt() -> str:
            self.made += 1
            return "second"

        future = self._pool.submit(self._run, attempt, timeout)
        wait_for_second(self.flights, "key", future.done)
        return future

    def end(self, outcome: BaseException | None = None) -> None:
        self._outcome = outcome
        self._end.set()

    def close(self) -> None:
        self._end.set()
        self._pool.shutdown()

    def _run(self, attempt: Callable[[], str], timeout: float) -> str:
        return self.flights.run("key", attempt, time.monotonic() + timeout, is_final)


@pytest.fixture
def attempts() -> Iterator[Attempts]:
    attempts = Attempts()
    yield attempts
    attempts.close()


def test_a_thread_that_wants_the_same_gets_the_result_of_the_attempt_under_way(attempts: Attempts) -> None:
    first, second = attempts.first(), attempts.second()
    attempts.end()
    assert (first.result(30), second.result(30), attempts.made) == ("first", "first", 1)


def test_another_key_is_an_attempt_of_its_own(attempts: Attempts) -> None:
    attempts.first()
    other = attempts.flights.run("other", lambda: "other", time.monotonic() + 10, is_final)
    assert other == "other"


def test_a_failure_that_is_shared_is_raised_in_each_thread_as_its_own(attempts: Attempts) -> None:
    first, second = attempts.first(), attempts.second()
    attempts.end(AuthenticationError("wrong password"))
    errors = [each.exception(30) for each in (first, second)]
    assert [str(error) for error in errors] == 2 * ["wrong password"]
    assert errors[0] is not errors[1]
    assert attempts.made == 1


@pytest.mark.parametrize("outcome", [KafkaTimeoutError("too slow"), KeyboardInterrupt()])
def test_after_a_failure_of_the_other_thread_alone_the_waiting_one_tries_itself(
    attempts: Attempts, outcome: BaseException
) -> None:
    first, second = attempts.first(), attempts.second()
    attempts.end(outcome)
    assert second.result(30) == "second"
    assert type(first.exception(30)) is type(outcome)


def test_a_wait_for_another_thread_ends_at_the_deadline(attempts: Attempts) -> None:
    attempts.first()
    with pytest.raises(TimeoutError):
        attempts.second(timeout=0.1).result(30)
    attempts.flights.wait(0.01)  # bounded, too


def test_an_attempt_that_has_ended_is_not_shared(attempts: Attempts) -> None:
    first = attempts.first()
    attempts.end()
    first.result(30)
    assert attempts.flights.run("key", lambda: "new", time.monotonic() + 10, is_final) == "new"

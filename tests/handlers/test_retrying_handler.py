"""RetryingHandler: how often it calls the handler, how long it pauses, and what it raises in the end."""

import pickle
from functools import partial
from typing import Any

import pytest

from pyklient import Message
from pyklient.errors import ConfigurationError
from pyklient.handlers import RetryingHandler

MESSAGE = Message("orders", 0, 7, 0, 0, None, b"book")


class Failing:
    """A handler that fails a number of times."""

    def __init__(self, failures: int, error: type[Exception] = ConnectionError) -> None:
        self.failures = failures
        self.error = error
        self.calls = 0

    def __call__(self, message: Message) -> None:
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error(f"failure {self.calls}")


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr("pyklient.handlers.retrying_handler.time.sleep", found.append)
    return found


async def handle_later(*_: object) -> None:
    """A coroutine function, which a program passes by mistake."""


@pytest.mark.parametrize("handler", [handle_later, partial(handle_later, 7)])
def test_a_coroutine_function_is_an_error_because_nobody_would_await_it(handler: Any) -> None:
    with pytest.raises(TypeError, match=r"^handler is a coroutine function .* such as one that calls async"):
        RetryingHandler(handler)


@pytest.mark.parametrize("name", ["backoff", "backoff_max"])
def test_a_negative_pause_is_an_error(name: str) -> None:
    options: dict[str, Any] = {name: -1}
    with pytest.raises(ConfigurationError, match=f"^{name}=-1 is negative; give a pause in seconds"):
        RetryingHandler(print, **options)


def test_a_handler_is_called_again_until_it_succeeds(pauses: list[float]) -> None:
    handler = Failing(failures=2)
    RetryingHandler(handler, attempts=3)(MESSAGE)
    assert handler.calls == 3
    assert len(pauses) == 2


def test_the_last_exception_is_raised_with_the_number_of_attempts(pauses: list[float]) -> None:
    handler = Failing(failures=9)
    with pytest.raises(ConnectionError, match="failure 4") as caught:
        RetryingHandler(handler, attempts=4)(MESSAGE)
    assert caught.value.__notes__ == ["attempts: 4"]
    assert len(pauses) == 3, "no pause after the last attempt"


def test_pauses_double_up_to_the_longest_and_vary_by_a_fifth(pauses: list[float]) -> None:
    RetryingHandler(Failing(failures=5), attempts=6, backoff=1, backoff_max=5)(MESSAGE)
    for pause, wanted in zip(pauses, [1, 2, 4, 5, 5], strict=True):
        assert 0.8 * wanted <= pause <= 1.2 * wanted


def test_other_exceptions_are_raised_at_once(pauses: list[float]) -> None:
    handler = Failing(failures=9, error=ValueError)
    with pytest.raises(ValueError, match="failure 1"):
        RetryingHandler(handler, retry_on=(ConnectionError, TimeoutError))(MESSAGE)
    assert (handler.calls, pauses) == (1, [])


def test_it_can_be_sent_to_another_process() -> None:
    again = pickle.loads(pickle.dumps(RetryingHandler(print, attempts=5)))
    assert again._attempts == 5


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(TypeError, match="a function that takes a message, not 7"):
        RetryingHandler(7)  # type: ignore[arg-type]  # the mistake that this test makes
    with pytest.raises(ConfigurationError, match="attempts"):
        RetryingHandler(print, attempts=0)
    with pytest.raises(TypeError, match="backoff takes a number of seconds"):
        RetryingHandler(print, backoff="1")  # type: ignore[arg-type]  # the mistake that this test makes


@pytest.mark.parametrize("wrong", ["ValueError", ValueError("x"), (ValueError, 3), int, BaseException])
def test_retry_on_takes_classes_of_exceptions(wrong: Any) -> None:
    with pytest.raises(TypeError, match="retry_on takes a class of exceptions"):
        RetryingHandler(print, retry_on=wrong)

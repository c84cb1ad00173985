"""RetryTopic, which lets a failed message wait in another topic until it is handled again."""

import time
from collections.abc import Callable
from functools import partial

from pyklient import argument_checks
from pyklient.handlers.failed_message import check_producer, header, send_copy
from pyklient.kernel import Message
from pyklient.producer.producer import Producer

__all__ = ["RetryTopic"]


class RetryTopic:
    """Sends a copy of each failed message to *topic*, whose messages are handled again after *delay* seconds.

    ::

        retry = RetryTopic(producer, "orders.retry", delay=30, attempts=3, then=dead_letters)

        # one connector reads "orders", another one the retry topic
        orders.parallel("orders", charge, on_error=retry).run()
        retries.parallel("orders.retry", retry.handler(charge), on_error=retry).run()

    A message that fails again is sent to the same topic again, up to *attempts* times. When its last attempt
    fails, ``then(message, error)`` is called: *then* is a DeadLetterTopic or a function. Other messages do
    not wait for a failed message, so later messages with its key may be handled first. The copies have the
    headers that DeadLetterTopic describes, and ``__pyklient.retry.attempt`` and ``__pyklient.retry.due``
    (milliseconds since 1970). *producer* must not have encoders. *timeout* is the longest wait in seconds
    until a copy is stored; by default, only ``delivery_timeout_ms`` is a limit.
    """

    def __init__(
        self,
        producer: Producer,
        topic: str,
        *,
        delay: float,
        attempts: int,
        then: Callable[[Message, Exception], object],
        timeout: float | None = None,
    ) -> None:
        if not callable(then):
            raise TypeError(
                f"the argument 'then' must be a DeadLetterTopic or a function of a message and an error, "
                f"not {then!r}"
            )
        argument_checks.plain_function(then, "then")
        self._producer = check_producer(producer)
        self._topic = argument_checks.topic_name(topic)
        self._delay = argument_checks.pause(delay, "delay")
        self._attempts = argument_checks.whole(attempts, "attempts", low=1)
        self._then = then
        self._timeout = None if timeout is None else argument_checks.seconds(timeout, "timeout")

    def __call__(self, message: Message, error: Exception) -> None:
        """Send a copy of *message*, whose handler has raised *error*, and wait until it is stored.

        After the last attempt, calls *then* instead. Raises the error of the producer if the copy is not
        stored within the time-out. In that case, the program must not commit *message*.
        """
        attempt = (_number(message, "attempt") if message.topic == self._topic else 0) + 1
        if attempt > self._attempts:
            self._then(message, error)
            return
        due = time.time() + self._delay
        retry = {"attempt": str(attempt), "due": str(int(due * 1000))}
        send_copy(self._producer, self._topic, message, error, retry, self._timeout)

    def handler(self, handler: Callable[[Message], object]) -> Callable[[Message], None]:
        """Return a handler for the messages of the retry topic. It waits until a message is due, and then
        calls *handler*.

        The wait is never longer than *delay* seconds, even if the clock of the machine that sent the copy is
        fast.

        Two limits apply to *delay* and the time of *handler* together. If a rebalance begins meanwhile, the
        member waits for the handler for 51 seconds by default. After that, another member may get the message
        too. The option ``rebalance_timeout_ms`` sets this limit. In a loop, the sum must also be less than
        ``max_poll_interval_ms``, or the member leaves its group.
        """
        if not callable(handler):
            raise TypeError(f"handler must be a function that takes a message, not {handler!r}")
        argument_checks.plain_function(handler, "handler")
        return partial(_handle_when_due, handler, self._delay)


def _handle_when_due(handler: Callable[[Message], object], delay: float, message: Message) -> None:
    left = _number(message, "due") / 1000 - time.time()
    time.sleep(min(max(left, 0.0), delay))
    handler(message)


def _number(message: Message, name: str) -> int:
    """Return the number in the header ``__pyklient.retry.<name>``. Return 0 if the message has no such
    header."""
    text = header(message, name) or ""
    return int(text) if text.isdecimal() and len(text) < 20 else 0

"""RetryingHandler, which calls a handler again after a pause."""

import time
from collections.abc import Callable

from pyklient import argument_checks
from pyklient.kernel import Message
from pyklient.net.backoff import Backoff

__all__ = ["RetryingHandler"]


class RetryingHandler:
    """A handler that calls another handler until it succeeds, up to *attempts* times, with growing pauses.

    ::

        handle = RetryingHandler(charge, attempts=5, backoff=0.2)
        for message in connector.stream("orders"):
            handle(message)

    The pauses begin with *backoff* seconds and double up to *backoff_max* seconds, and each is up to 20 %
    longer or shorter at random. *retry_on* is a class of exceptions, or a tuple of classes: the handler is
    called again only after such an exception. The last exception is raised. Messages behind the failed one
    wait, so their order does not change.

    Two limits apply to the time that all attempts and pauses for one message take together. If a rebalance
    begins meanwhile, the member waits for the handler for 51 seconds by default. After that, another member
    may get the message too. The option ``rebalance_timeout_ms`` sets this limit. In a loop, the time must
    also be less than ``max_poll_interval_ms``, or the member leaves its group.

    A RetryingHandler can be pickled if *handler* can be pickled. So it may run in the processes of
    ``ConsumerConnector.parallel``.
    """

    def __init__(
        self,
        handler: Callable[[Message], object],
        *,
        attempts: int = 3,
        backoff: float = 0.1,
        backoff_max: float = 10.0,
        retry_on: type[Exception] | tuple[type[Exception], ...] = Exception,
    ) -> None:
        if not callable(handler):
            raise TypeError(f"handler must be a function that takes a message, not {handler!r}")
        argument_checks.plain_function(handler, "handler")
        kinds = retry_on if isinstance(retry_on, tuple) else (retry_on,)
        if not all(isinstance(each, type) and issubclass(each, Exception) for each in kinds):
            raise TypeError(
                f"retry_on takes a class of exceptions, or a tuple of such classes, not {retry_on!r}"
            )
        self._handler = handler
        self._attempts = argument_checks.whole(attempts, "attempts", low=1)
        self._backoff = Backoff(
            argument_checks.pause(backoff, "backoff"), argument_checks.pause(backoff_max, "backoff_max")
        )
        self._retry_on = retry_on

    def __call__(self, message: Message) -> None:
        """Handle *message*. Raise the exception of the last attempt, with the number of attempts in a
        note."""
        for attempt in range(1, self._attempts + 1):
            try:
                self._handler(message)
                return
            except self._retry_on as error:
                if attempt == self._attempts:
                    error.add_note(f"attempts: {attempt}")
                    raise
            time.sleep(self._backoff.pause(attempt))

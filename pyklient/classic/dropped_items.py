"""Counts and logs the messages that an asynchronous producer has to drop."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from pyklient.classic.callback_handler import CallbackHandler, HookResultError
from pyklient.counted import counted
from pyklient.errors import KafkaError
from pyklient.log_events import log_fields

__all__ = ["DroppedItems", "traceback_of"]

log = logging.getLogger("pyklient.producer")


class DroppedItems:
    """Counts the messages that an asynchronous producer has dropped, logs them, and calls ``on_dropped`` of
    the callback handler. Any thread may call ``add``."""

    def __init__(self, callback_handler: CallbackHandler | None) -> None:
        self._callback_handler = callback_handler
        self._counts: dict[int, int] = {}
        """The number of messages that each thread has dropped, by the identifier of the thread. A thread
        changes only its own number."""

    @property
    def count(self) -> int:
        """The number of messages that were dropped so far."""
        return sum(list(self._counts.values()))

    def add(self, items: Sequence[Any], error: BaseException, reason: str) -> None:
        """Count and log *items*, which the producer drops because of *error*, and call ``on_dropped``.
        *reason* is the text for the log: it names the failure and the error."""
        if not items:
            return
        thread = threading.get_ident()
        self._counts[thread] = self._counts.get(thread, 0) + len(items)
        log.error(
            "%s; %s dropped (%d in total since this producer was made)",
            reason,
            counted(len(items), "message was", "messages were"),
            self.count,
            exc_info=traceback_of(error),
            extra=log_fields("messages_dropped", messages=len(items), error=repr(error)),
        )
        if self._callback_handler is None:
            return
        try:
            self._callback_handler.on_dropped(items, error)
        except BaseException as failure:  # also SystemExit, which must not end the send thread
            log.exception("%s.on_dropped raised an exception", type(self._callback_handler).__name__)
            if threading.current_thread() is threading.main_thread() and not isinstance(failure, Exception):
                raise  # Ctrl-C


def traceback_of(error: BaseException) -> BaseException | None:
    """Return *error* if the log should have its traceback. Return None if its text says enough: this holds
    for a HookResultError, and for a KafkaError without a cause or caused by a KafkaError or OSError."""
    said = isinstance(error, HookResultError) or (
        isinstance(error, KafkaError) and isinstance(error.__cause__, KafkaError | OSError | None)
    )
    return None if said else error

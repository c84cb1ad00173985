"""Counts and logs the messages that an asynchronous producer has to drop."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from pyklient.classic.callback_handler import CallbackHandler
from pyklient.log_events import log_fields

__all__ = ["DroppedItems"]

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
        """Drop *items* because of *error*. *reason* is a text for the log, which says what has failed and
        with which error."""
        if not items:
            return
        thread = threading.get_ident()
        self._counts[thread] = self._counts.get(thread, 0) + len(items)
        log.error(
            "%s; %s dropped (%d since this producer was made)",
            reason,
            "1 message was" if len(items) == 1 else f"{len(items):,} messages were",
            self.count,
            exc_info=error,
            extra=log_fields("messages_dropped", messages=len(items), error=repr(error)),
        )
        if self._callback_handler is None:
            return
        try:
            self._callback_handler.on_dropped(items, error)
        except BaseException as failure:  # also SystemExit, which must not end the send thread
            log.exception("%s.on_dropped failed", type(self._callback_handler).__name__)
            if threading.current_thread() is threading.main_thread() and not isinstance(failure, Exception):
                raise  # Ctrl-C

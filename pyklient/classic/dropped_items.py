"""What an asynchronous producer does with the messages that it has to give up."""

import logging
import threading
from collections.abc import Sequence
from typing import Any

from pyklient.classic.callback_handler import CallbackHandler
from pyklient.log_events import log_fields

__all__ = ["DroppedItems"]

log = logging.getLogger("pyklient.producer")


class DroppedItems:
    """Counts the messages that an asynchronous producer has given up, logs them, and tells the callback
    handler. Any thread may call ``add``."""

    def __init__(self, callback_handler: CallbackHandler | None) -> None:
        self._callback_handler = callback_handler
        self._counts: dict[int, int] = {}
        """For each thread that gave up messages, how many. A thread changes only its own number."""

    @property
    def count(self) -> int:
        """The number of messages that were given up so far."""
        return sum(list(self._counts.values()))

    def add(self, items: Sequence[Any], error: BaseException, reason: str) -> None:
        """Give up *items* because of *error*. *reason* says what failed, and with what."""
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
        except Exception:
            log.exception("%s.on_dropped failed", type(self._callback_handler).__name__)

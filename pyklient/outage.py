"""Logs an outage, which is the time in which an operation fails again and again.

The log shows only the beginning of the outage, a few reminders, and the end, however often the operation is
tried.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from pyklient.counted import counted
from pyklient.log_events import log_fields

__all__ = ["Outage"]

_FIRST_REMINDER: Final = 60.0
_LONGEST_PAUSE: Final = 3600.0


class Outage:
    """The outages of one operation, such as connecting to a broker. Only one thread at a time may use an
    Outage.

    *what* names the target of the operation in each log message, such as "broker 1". *name* is the beginning
    of the events' names: ``<name>_began``, ``<name>_continues`` and ``<name>_ended``. *fields* are further
    fields of the log records. The first reminder is logged after one minute. The time between two reminders
    then doubles each time, up to an hour.
    """

    def __init__(
        self,
        log: logging.Logger,
        what: str,
        name: str,
        *,
        level: int = logging.WARNING,
        clock: Callable[[], float] = time.monotonic,
        **fields: object,
    ) -> None:
        self._log = log
        self._what = what
        self._name = name
        self._level = level
        self._clock = clock
        self._fields = fields
        self._since: float | None = None
        self._attempts = 0
        self._remind_at = self._pause = self._tried_at = 0.0

    def failed(self, error: BaseException, tried: str) -> None:
        """Remember that an attempt has failed with *error*. Log the beginning of the outage, or a reminder if
        one is due. *tried* tells what the client does now, such as "trying again"."""
        now = self._clock()
        self._attempts += 1
        self._tried_at = now
        if self._since is None:
            self._since, self._pause = now, _FIRST_REMINDER
            self._remind_at = now + self._pause
            extra = log_fields(f"{self._name}_began", error=str(error), **self._fields)
            told = str(error) if self._what in str(error) else f"{self._what}: {error}"
            self._log.log(self._level, "%s; %s", told, tried, extra=extra)
        elif now >= self._remind_at:
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)
            self._remind_at = now + self._pause
            self._log.log(
                self._level,
                "%s: the outage goes on after %.0f s and %s; %s; the last failure: %s",
                self._what,
                now - self._since,
                counted(self._attempts, "attempt"),
                tried,
                error,
                extra=self._extra("continues", now, error=str(error)),
            )

    def passed_by(self, seconds: float, why: str) -> None:
        """End the outage if nothing was tried for *seconds*, because the operation is no longer needed. *why*
        is a clause for the log that tells why."""
        if self._since is not None and self._clock() - self._tried_at >= seconds:
            self.ended(f"; {why}")

    def ended(self, why: str = "") -> None:
        """Remember that an attempt has succeeded. Log the end of the outage if there was one.

        *why* is added to the log message.
        """
        if self._since is None:
            return
        now = self._clock()
        attempts = "1 failed attempt" if self._attempts == 1 else f"{self._attempts} failed attempts"
        seconds = now - self._since
        extra = self._extra("ended", now)
        self._since, self._attempts = None, 0
        self._log.log(
            self._level,
            "%s: the outage is over after %.1f s and %s%s",
            self._what,
            seconds,
            attempts,
            why,
            extra=extra,
        )

    def _extra(self, state: str, now: float, **more: object) -> dict[str, object]:
        assert self._since is not None
        return log_fields(
            f"{self._name}_{state}",
            seconds=round(now - self._since, 3),
            attempts=self._attempts,
            **more,
            **self._fields,
        )

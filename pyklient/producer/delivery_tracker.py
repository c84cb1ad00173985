"""Counts delivery failures that the user has not seen, waits for batches, and runs on_delivery callbacks."""

import logging
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

from pyklient import argument_checks
from pyklient.errors import DeliveryError, KafkaError
from pyklient.kernel import Batch, Delivery, call_back
from pyklient.producer.locks import Wakeup, new_batch_lock
from pyklient.producer.threads.sender_thread import SenderThread

__all__ = ["DeliveryTracker", "check_callback", "run_callbacks"]

log = logging.getLogger("pyklient.producer")


class DeliveryTracker:
    """Counts the failed records whose failure the user has not seen.

    Batches report their failures when they are done. A failure is removed from the count once a callback,
    ``result`` or ``exception`` has shown it. The failures that are left are raised when the producer is
    flushed or closed. The tracker stores one count and the first error per topic, so it needs little memory
    even if many records fail.

    ``lock`` is the batch lock (see ``pyklient.producer.locks``), which the kernel uses too.
    """

    def __init__(self, thread: SenderThread) -> None:
        self.lock: AbstractContextManager[Any] = new_batch_lock()
        self._thread = thread
        self._abandoned: KafkaError | None = None
        self._page = 1
        """The number of the next call of ``report``, counted from 1. A batch with failures stores it, so
        that ``unseen`` can tell if ``report`` has already returned the failures of the batch."""
        self._failed: dict[str, int] = {}
        self._first: dict[str, KafkaError] = {}

    def wait(self, batch: Batch, timeout: float | None) -> bool:
        """Wait until *batch* is done, for at most *timeout* seconds. Return True if *batch* is done.

        Raises KafkaError inside an on_delivery callback, because the thread that runs the callback would wait
        for itself.
        """
        argument_checks.seconds_or_none(timeout, "timeout")
        if self._abandoned is not None:
            raise copy(self._abandoned)
        if self._thread.is_current():
            raise KafkaError(
                f"{batch.topic}-{batch.partition}: cannot wait for a delivery inside on_delivery, "
                "because the thread that runs this callback also receives the results; wait in another "
                "thread"
            )
        wakeup = Wakeup()
        with self.lock:
            if batch.done:
                return True
            batch.waiters.append(wakeup.set)
        if wakeup.wait(timeout):
            return True
        with self.lock:
            if wakeup.set in batch.waiters:
                batch.waiters.remove(wakeup.set)
            return batch.done

    def wait_for_all(self, batches: Sequence[Batch], deadline: float | None) -> bool:
        """Wait until all *batches* are done, or until ``time.monotonic()`` reaches *deadline*. Return True if
        all are done. The oldest of *batches* is the first.

        Raises KafkaError as ``wait`` does.
        """
        # The newest first: the batches of a partition are done in order. So this thread wakes up about once
        # for each partition, and not once for each batch.
        for batch in reversed(batches):
            if not batch.done:
                left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                if not self.wait(batch, left):
                    return False
        return True

    def abandon(self, error: KafkaError) -> None:
        """Make every ``wait`` raise *error*. The child process calls this after a fork, because it delivers
        nothing.

        The lock is replaced, because a thread that exists only in the parent process may hold the old lock.
        """
        self._abandoned = error
        self.lock = new_batch_lock()

    def unseen(self, batch: Batch, change: int, error: KafkaError) -> None:
        """Add *change* to the number of unseen failures of *batch*. The batch lock must be held.

        *change* is negative if the user has now seen failures. A negative *change* is ignored if ``report``
        has already returned the failures of *batch*.
        """
        topic = batch.topic
        if change > 0:
            batch.failure_round = self._page
        elif batch.failure_round != self._page:
            return
        left = self._failed.get(topic, 0) + change
        if left > 0:
            self._failed[topic] = left
            self._first.setdefault(topic, error)
        else:
            self._failed.pop(topic, None)
            self._first.pop(topic, None)

    def report(self) -> DeliveryError | None:
        """Return a DeliveryError for all unseen failures, or None if there are none. From now on, these
        failures count as seen."""
        with self.lock:
            failed, self._failed = self._failed, {}
            first, self._first = self._first, {}
            self._page += 1
        if not failed:
            return None
        total = sum(failed.values())
        reasons = "; ".join(
            f"{topic}: {failed[topic]:,}, the first because {error}" for topic, error in first.items()
        )
        error = DeliveryError(
            f"{total:,} record{'s were' if total != 1 else ' was'} not delivered ({reasons})", total, first
        )
        error.__cause__ = next(iter(first.values()))
        return error


def check_callback(on_delivery: object) -> None:
    """Raise TypeError if *on_delivery* is neither None nor a function."""
    if on_delivery is not None and not callable(on_delivery):
        raise TypeError(
            f"on_delivery must be a function with one argument, the delivery, not {on_delivery!r}"
        )


def run_callbacks(listeners: list[Any]) -> None:
    """Run the on_delivery callbacks of a batch. If a callback raises an exception, log the exception."""
    call_back(listeners, _log_failure)


def _log_failure(delivery: Delivery) -> None:
    log.exception("the on_delivery callback for %r raised an exception", delivery)

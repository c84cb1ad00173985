"""Failures that nobody has looked at yet, and who waits for a batch."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from copy import copy
from typing import Any

from pyklient import argument_checks
from pyklient.errors import DeliveryError, KafkaError
from pyklient.protocol.records.kernel import Batch

__all__ = ["DeliveryTracker"]


class DeliveryTracker:
    """The desk that batches report to (``outcomes.Desk``). Its lock is the kernel's too, and orders the
    reports with the batches' own bookkeeping. *is_own_thread*: whether the caller runs in the sender's turn.

    A failure is entered when its batch is done, and struck out once a callback, ``result`` or ``exception``
    has shown it; what is left when the producer is flushed or closed is reported there, once. Entries are
    counts per topic with the first error each, so the tracker stays small however much fails.
    """

    def __init__(self, is_own_thread: Callable[[], bool]) -> None:
        self.lock: AbstractContextManager[Any] = threading.RLock()
        self._is_own_thread = is_own_thread
        self._gone: KafkaError | None = None
        self._page = 1
        self._failed: dict[str, int] = {}
        self._first: dict[str, KafkaError] = {}

    def wait(self, batch: Batch, timeout: float | None) -> bool:
        """Wait for *batch*, *timeout* seconds at most; whether it is done. Raises KafkaError on the sender's
        own thread, which would wait for itself."""
        argument_checks.patience(timeout, "timeout")
        if self._gone is not None:
            raise copy(self._gone)
        if self._is_own_thread():
            raise KafkaError(
                f"{batch.topic}-{batch.partition}: waiting for a delivery inside on_delivery would never "
                "end, because the thread that runs it is the one that delivers"
            )
        # Not an Event: that has a lock of its own, taken in Python code. Ctrl-C in the middle of that leaves
        # it locked, and whoever sets the event, the sender, would wait for ever.
        waiter = threading.Lock()
        waiter.acquire()
        with self.lock:
            if batch.done:
                return True
            batch.waiters.append(waiter.release)
        if waiter.acquire(timeout=-1 if timeout is None else min(max(timeout, 0.0), threading.TIMEOUT_MAX)):
            return True
        with self.lock:
            if waiter.release in batch.waiters:
                batch.waiters.remove(waiter.release)
            return batch.done

    def abandon(self, error: KafkaError) -> None:
        """In the child of a fork: nothing is delivered here, so waiting raises *error*; a lock that a thread
        of the parent holds is never released here, so this takes a new one."""
        self._gone = error
        self.lock = threading.RLock()

    def unseen(self, batch: Batch, change: int, error: KafkaError) -> None:
        """With the lock held: *change* more failures of *batch* that nobody has seen, or fewer. What has
        been reported meanwhile stays reported."""
        topic = batch.topic
        if change > 0:
            batch.page = self._page
        elif batch.page != self._page:
            return
        left = self._failed.get(topic, 0) + change
        if left > 0:
            self._failed[topic] = left
            self._first.setdefault(topic, error)
        else:
            self._failed.pop(topic, None)
            self._first.pop(topic, None)

    def report(self) -> DeliveryError | None:
        """The error for all failures that nobody has seen, which count as seen from now on; None if there
        are none."""
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

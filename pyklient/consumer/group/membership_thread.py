"""The thread of a membership. It sleeps until another thread wakes it, and has a future that is done when the
member has joined."""

import queue
import threading
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future
from contextlib import suppress

from pyklient.errors import ClosedError, KafkaError, KafkaTimeoutError

__all__ = ["MembershipThread"]


class MembershipThread:
    """A thread called *name*, which runs one function from :meth:`start` until the membership has ended."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._then: Callable[[], None] | None = None
        self._over = False
        self.joined: Future[None] = Future()
        """Done when the first partitions are assigned, or when an error makes that impossible."""
        self.problem: KafkaError | None = None
        """The error because of which the member cannot read its assigned partitions yet. None if there is no
        such error."""

    def start(self, run: Callable[[], None]) -> None:
        """Start the thread, which calls *run*."""
        self._thread = threading.Thread(target=self._run, args=(run,), name=self._name, daemon=True)
        self._thread.start()

    def joined_within(self, seconds: float) -> bool:
        """Wait up to *seconds* seconds until the first partitions are assigned, or an error makes that
        impossible. Return False if neither happens in this time."""
        return bool(futures.wait([self.joined], seconds).done)

    def wait_until_joined(self, timeout: float, failure: str, *, waited: float = 0.0) -> None:
        """Wait until the first partitions are assigned. If an error makes this impossible, raise the error.
        Raise KafkaTimeoutError after *timeout* seconds. The text of KafkaTimeoutError names ``problem``, or
        is *failure* if ``problem`` is None. *waited* is the part of *timeout* that the caller has waited
        already."""
        try:
            self.joined.result(timeout - waited)
        except KafkaError:
            raise
        except TimeoutError:
            if self.joined.done():
                raise  # an offset store may raise a TimeoutError too
            if self.problem is None:
                raise KafkaTimeoutError(failure) from None
            raise KafkaTimeoutError(
                f"this member could not begin to read its partitions within {timeout:.3g} s: {self.problem}"
            ) from self.problem

    def wake(self) -> None:
        """End the present :meth:`wait`, or the next one if the thread is not waiting. This method acquires no
        lock and never waits."""
        self._bell.put(None)

    def wait(self, seconds: float) -> None:
        """Wait for *seconds* seconds, or until :meth:`wake` is called. Only this thread calls this method."""
        if seconds > 0:
            with suppress(queue.Empty):
                self._bell.get(timeout=seconds)

    def call_at_end(self, then: Callable[[], None]) -> bool:
        """Call *then* as the last step of this thread. Return False if this thread was never started or has
        ended already: *then* might never be called. This method acquires no lock and never waits."""
        self._then = then
        return self._thread is not None and not self._over

    @property
    def running(self) -> bool:
        """True from the start of the thread to its end."""
        return self._thread is not None and self._thread.is_alive()

    def runs_here(self) -> bool:
        """Return True if the calling thread is this thread."""
        return threading.current_thread() is self._thread

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the end of this thread, unless the calling thread is this
        thread."""
        if self._thread is not None and self._thread.is_alive() and not self.runs_here():
            self._thread.join(timeout)

    def _run(self, run: Callable[[], None]) -> None:
        run()
        if not self.joined.done():
            self.joined.set_exception(
                ClosedError("this ConsumerConnector was closed before it had joined its group")
            )
        self._over = True
        if self._then is not None:
            self._then()

"""The threads of a Producer: the sender's, and those that do the waiting for it.

The sender's alone touches what is under way, which the Sender keeps. Others hand over to it by its inbox,
with functions that it calls: answers come from the connections' readers, tasks (connecting, writing to a
socket, asking for metadata) are run by blocking workers. Between two items it calls the timers that are
due, lets the Sender send, and sleeps until the next timer.
"""

import contextlib
import heapq
import itertools
import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

__all__ = ["BlockingWorker", "SenderThread", "Timed", "Work"]

log = logging.getLogger("pyklient.producer")

_NEVER: Final = float("inf")
_LONGEST_SLEEP: Final = 60.0
_FEW_TIMERS: Final = 1024
_SIGN_OF_LIFE: Final = 0.5
"""How often somebody who waits for the thread makes sure that it still runs."""


class Timed(Protocol):
    """Something that has a timer. ``timer`` is when it goes off; it is the thread's to set."""

    timer: float


_Target = TypeVar("_Target", bound=Timed)
_Timer: TypeAlias = tuple[float, int, Timed, Callable[[Any], object]]
"""When, a number that no other has, whose, and what to call."""


class Work(Protocol):
    """What the thread does: the Sender."""

    def has_news(self) -> bool:
        """Whether users' threads have left something since the last step."""

    def step(self) -> bool:
        """Take in what users' threads have left, and send what can be sent. False: that was all, for ever."""

    def end(self, crash: BaseException | None) -> None:
        """The thread ends, because of *crash* if there is one: fail what is left, give everything back."""


class SenderThread:
    """The thread, its inbox and its timers. Times are ``time.monotonic`` seconds."""

    def __init__(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._inbox: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._timers: list[_Timer] = []
        self._too_many_timers = _FEW_TIMERS
        self._serial = itertools.count()
        self._sleeps_until = -_NEVER
        self._work: Work | None = None

    @property
    def started(self) -> bool:
        """Whether the thread has begun."""
        return self._thread.ident is not None

    def start(self, work: Work) -> None:
        """Begin. A call that was interrupted (Ctrl-C) may be made again."""
        self._work = work
        try:
            self._thread.start()
        except RuntimeError:
            if not self.started:
                raise

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end; whether it has come. True at once on the thread itself."""
        if not self.started or self.is_current():
            return True
        self._thread.join(min(max(timeout, 0.0), threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether the caller runs on this thread."""
        return threading.current_thread() is self._thread

    def post(self, item: Callable[[], None]) -> None:
        """Have *item* called on the thread; from any thread."""
        self._inbox.put(item)

    def catch_up(self, timeout: float | None) -> bool:
        """Wait until it has called everything posted so far, *timeout* seconds at most; whether it has. True
        at once on the thread itself, and where it has ended."""
        if not self.started or self.is_current():
            return True
        caught_up = threading.Lock()  # not an Event: see DeliveryTracker.wait
        caught_up.acquire()
        self.post(caught_up.release)
        deadline = _NEVER if timeout is None else time.monotonic() + timeout
        while not caught_up.acquire(timeout=max(0.0, min(deadline - time.monotonic(), _SIGN_OF_LIFE))):
            if not self._thread.is_alive():
                return True
            if time.monotonic() >= deadline:
                return False
        return True

    def wake(self, due: float) -> None:
        """There is something to do at *due*; from any thread. Costs nothing while it is awake then anyway."""
        if due < self._sleeps_until:
            self._inbox.put(None)

    def set_timer(self, target: _Target, when: float, call: Callable[[_Target], object]) -> None:
        """``call(target)`` at *when*, and not when it was to be before."""
        if when == target.timer:
            return
        target.timer = when
        if when < _NEVER:
            timer: _Timer = (when, next(self._serial), target, call)
            heapq.heappush(self._timers, timer)
            if len(self._timers) > self._too_many_timers:
                self._drop_stale_timers()

    def _run(self) -> None:
        crash: BaseException | None = None
        work = self._work
        assert work is not None
        try:
            while work.step():
                self._sleep(work)
                self._take_in()
                self._call_timers()
        except BaseException as error:
            crash = error
            log.exception("the sender has failed in a way that nobody foresaw; nothing more is sent")
        work.end(crash)

    def _sleep(self, work: Work) -> None:
        """Until the next timer, an item, or a call of ``wake``."""
        now = time.monotonic()
        until = min(now + _LONGEST_SLEEP, self._timers[0][0] if self._timers else _NEVER)
        self._sleeps_until = until
        # In this order: news that come after the look find out that this thread sleeps.
        if until > now and not work.has_news():
            with contextlib.suppress(queue.Empty):
                item = self._inbox.get(timeout=until - now)
                if item is not None:
                    item()
        self._sleeps_until = -_NEVER

    def _take_in(self) -> None:
        for _ in range(self._inbox.qsize()):
            item = self._inbox.get()
            if item is not None:
                item()

    def _drop_stale_timers(self) -> None:
        """Most are set anew long before they are due, and would stay until then: a time-out away."""
        live = {timer[2]: timer for timer in self._timers if timer[0] == timer[2].timer}
        self._timers = list(live.values())
        heapq.heapify(self._timers)
        self._too_many_timers = max(_FEW_TIMERS, 2 * len(self._timers))

    def _call_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            when, _, target, call = heapq.heappop(self._timers)
            if target.timer == when:  # it has not been set anew since
                target.timer = _NEVER
                call(target)


class BlockingWorker:
    """A thread that runs the tasks it is given, in order. Starts with the first.

    A broker that is frozen or cut off makes whoever writes to it wait until the request's time-out. The
    sender must not: it has the other brokers to serve, and time-outs to watch.

    An task is a function that reports its own failures. Whoever gives tasks sees to it that they stay
    few: the sender never has more than ``max_in_flight_requests_per_connection`` on the way to a broker.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, task: Callable[[], None]) -> None:
        """Have *task* run on the worker's thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()
        self._tasks.put(task)

    def stop(self) -> None:
        """End after the tasks given so far."""
        self._tasks.put(None)

    def join(self, timeout: float) -> bool:
        """Wait for the end; whether it has come."""
        if self._thread is None:
            return True
        self._thread.join(max(timeout, 0.0))
        return not self._thread.is_alive()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task()
            except Exception:
                log.exception("%s: an task failed in a way that nobody foresaw", self._name)
            del task

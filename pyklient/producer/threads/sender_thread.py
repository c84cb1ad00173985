"""The threads of a Producer: the sender's, and those that do the waiting for it.

What is under way, which the Sender keeps, is touched by whoever has the turn, and by nobody else. Others hand
over by the inbox, with functions: tasks (connecting, writing to a socket, asking for metadata) are run by
blocking workers, answers come from the connections' readers. A turn is: call what is in the inbox and the
timers that are due, and let the Sender send. The sender's thread takes one whenever there is a reason to, and
sleeps until the next timer. A reader that brings an answer takes one itself if nobody has it: a record is
confirmed sooner then, by the time that it takes to wake a thread.
"""

import heapq
import itertools
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from pyklient.errors import KafkaError

__all__ = ["BlockingWorker", "SenderThread", "Timed", "Work"]

log = logging.getLogger("pyklient.producer")

_NEVER: Final = float("inf")
_LONGEST_SLEEP: Final = 60.0
_FEW_TIMERS: Final = 1024
_NAP: Final = 0.02
"""Short against any time-out, and long against the answer that is waited for and brings a turn of its own."""
_SIGN_OF_LIFE: Final = 0.5
"""How often somebody who waits for the thread makes sure that it still runs."""


class Timed(Protocol):
    """Something that has a timer. Both are the thread's to set."""

    timer: float
    """When it goes off."""
    alarm: float
    """When the thread looks at ``timer``: not later than that. Most timers are put off again and again, which
    costs nothing so."""


_Target = TypeVar("_Target", bound=Timed)
_Timer: TypeAlias = tuple[float, int, Timed, Callable[[Any], object]]
"""When, a number that no other has, whose, and what to call."""


class Work(Protocol):
    """What the thread does: the Sender."""

    def has_news(self) -> bool:
        """Whether users' threads have left something since the last step."""

    def is_full(self) -> bool:
        """Whether nothing more can be sent before an answer comes, which takes a turn by itself."""

    def step(self) -> bool:
        """Take in what users' threads have left, and send what can be sent. False: that was all, for ever."""

    def end(self, crash: BaseException | None) -> None:
        """The thread ends, because of *crash* if there is one: fail what is left, give everything back."""


class SenderThread:
    """The thread, the turn, the inbox and the timers. Times are ``time.monotonic`` seconds.

    *nap* is how late, in seconds, it may take in news that cannot be sent before an answer comes.
    """

    def __init__(self, name: str, nap: float = _NAP) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._turn = threading.Lock()
        self._holder: int | None = None
        """Which thread has the turn."""
        self._inbox: deque[Callable[[], None]] = deque()
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._timers: list[_Timer] = []
        self._too_many_timers = _FEW_TIMERS
        self._serial = itertools.count()
        self._sleeps_until = -_NEVER
        self._nap = nap
        self._listens = True
        """Whether news is worth a turn: whether a broker takes more before it answers."""
        self._work: Work | None = None
        self._over = False
        self._crash: BaseException | None = None

    @property
    def started(self) -> bool:
        """Whether the thread has begun."""
        return self._thread.ident is not None

    def start(self, work: Work) -> None:
        """Begin. A call that was interrupted (Ctrl-C) or has failed may be made again. Raises KafkaError if
        no thread can be started."""
        self._work = work
        try:
            self._thread.start()
        except RuntimeError as error:
            if not self.started:
                raise KafkaError(
                    f"the producer's thread cannot be started: {error}. Is a limit of threads reached, or "
                    "is the program at its end?"
                ) from error

    def join(self, timeout: float) -> bool:
        """Wait for the thread's end; whether it has come. True at once within a turn."""
        if not self.started or self.is_current():
            return True
        self._thread.join(min(max(timeout, 0.0), threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Whether the caller runs in a turn."""
        return self._holder == threading.get_ident()

    def post(self, item: Callable[[], None]) -> None:
        """Have *item* called in a turn; from any thread."""
        self._inbox.append(item)
        self.wake(-_NEVER)

    def hand_over(self, item: Callable[[], None]) -> None:
        """The same from a thread that has nothing better to do, and holds no lock: it takes the turn if that
        is free."""
        self._inbox.append(item)
        if not self._turn.acquire(blocking=False):
            self.wake(-_NEVER)
            return
        try:
            self._take_turn()
            missed = not self._listens and self._missed_news()
            due = -_NEVER if self._over or missed else self._next_timer()
        finally:
            self._turn.release()
        self.wake(due)

    def catch_up(self, timeout: float | None) -> bool:
        """Wait until everything posted so far has been called, *timeout* seconds at most; whether it has.
        True at once within a turn, and where the thread has ended."""
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
            self._bell.put(None)

    def tell(self, due: float) -> None:
        """Users' threads have left something that is to be seen to at *due*. Wakes nobody while nothing more
        can be sent: the turn that changes that looks for news, and so does the end of a nap."""
        # News first, then this. Whoever begins to listen does it in the other order, so nothing is missed.
        if self._listens:
            self.wake(due)

    def set_timer(self, target: _Target, when: float, call: Callable[[_Target], object]) -> None:
        """``call(target)`` at *when*, and not when it was to be before. In a turn; *call* is always the same
        for one target."""
        target.timer = when
        if when < target.alarm:
            self._set_alarm(target, when, call)
            if len(self._timers) > self._too_many_timers:
                self._drop_stale_timers()

    def _run(self) -> None:
        work = self._work
        assert work is not None
        while True:
            with self._turn:
                self._take_turn()
                if self._over:
                    break
                # With the turn: whoever takes the next one, and sets an earlier timer, wakes this thread.
                self._sleeps_until = self._next_timer()
                self._listens = not work.is_full()
                if not self._listens:
                    self._sleeps_until = min(self._sleeps_until, time.monotonic() + self._nap)
            self._sleep(work)
        # For good: nobody takes a turn any more.
        self._turn.acquire()
        self._holder = threading.get_ident()
        try:
            work.end(self._crash)
        finally:
            self._holder = None

    def _take_turn(self) -> None:
        """With the turn: everything there is to do now."""
        work = self._work
        assert work is not None
        if self._over:
            return
        self._holder = threading.get_ident()
        try:
            self._take_in()
            self._call_timers()
            self._over = not work.step()
        except BaseException as error:
            self._over, self._crash = True, error
            log.exception("the sender has failed in a way that nobody foresaw; nothing more is sent")
        finally:
            self._holder = None

    def _missed_news(self) -> bool:
        """With the turn, after what there was to do: whether there is news that nobody was woken for, and
        that may be sent now."""
        work = self._work
        assert work is not None
        if work.is_full():
            return False
        self._listens = True
        return work.has_news()

    def _next_timer(self) -> float:
        return self._timers[0][0] if self._timers else _NEVER

    def _sleep(self, work: Work) -> None:
        """Until the next timer, an item, or a call of ``wake``."""
        left = min(self._sleeps_until - time.monotonic(), _LONGEST_SLEEP)
        # In this order: news that comes after the look finds out that this thread sleeps.
        if left > 0 and not self._inbox and not (self._listens and work.has_news()):
            try:
                self._bell.get(timeout=left)
            except queue.Empty:
                self._sleeps_until = -_NEVER
                return
        self._sleeps_until = -_NEVER
        while not self._bell.empty():
            self._bell.get_nowait()

    def _take_in(self) -> None:
        for _ in range(len(self._inbox)):
            self._inbox.popleft()()

    def _set_alarm(self, target: _Target, when: float, call: Callable[[_Target], object]) -> None:
        target.alarm = when
        timer: _Timer = (when, next(self._serial), target, call)
        heapq.heappush(self._timers, timer)

    def _drop_stale_timers(self) -> None:
        """Those that gave way to an earlier one would stay until they are due."""
        live = {timer[2]: timer for timer in self._timers if timer[0] == timer[2].alarm}
        self._timers = list(live.values())
        heapq.heapify(self._timers)
        self._too_many_timers = max(_FEW_TIMERS, 2 * len(self._timers))

    def _call_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            when, _, target, call = heapq.heappop(self._timers)
            if when != target.alarm:  # an earlier one has taken its place
                continue
            target.alarm = _NEVER
            if target.timer <= now:
                target.timer = _NEVER
                call(target)
            elif target.timer < _NEVER:
                self._set_alarm(target, target.timer, call)


class BlockingWorker:
    """A thread that runs the tasks it is given, in order. Starts with the first. While no thread can be
    started (a limit of the system, the end of the program), the thread that gives a task runs it.

    A broker that is frozen or cut off makes whoever writes to it wait until the request's time-out. The
    sender must not: it has the other brokers to serve, and time-outs to watch.

    A task is a function that reports its own failures. Whoever gives tasks sees to it that they stay
    few: the sender never has more than ``max_in_flight_requests_per_connection`` on the way to a broker.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, task: Callable[[], None]) -> None:
        """Have *task* run on the worker's thread."""
        if self._thread is None and not self._start():
            self._run(task)
        else:
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

    def _start(self) -> bool:
        """Return False if no thread can be started."""
        thread = threading.Thread(target=self._work, name=self._name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            log.info(
                "%s: the sender does this thread's work, and waits where it would: %s", self._name, error
            )
            return False
        self._thread = thread
        return True

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._run(task)
            del task

    def _run(self, task: Callable[[], None]) -> None:
        try:
            task()
        except Exception:
            log.exception("%s: a task failed in a way that nobody foresaw", self._name)

"""Makes the commits of ``commit_offsets_async``: one thread commits in the order of the calls, and calls the
callbacks."""

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

from pyklient.consumer.commit.uncommitted_positions import ToCommit
from pyklient.consumer.locks import new_making_lock
from pyklient.errors import ClosedError, KafkaError, KafkaTimeoutError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["BackgroundCommits", "CommitCallback"]

log = logging.getLogger("pyklient.consumer")

_MOST_WAITING = 1_000
_POLL = 0.005

CommitCallback: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], object]
"""A function that is called with the offsets of a commit, and with the error of the commit or None."""

_Found = TypeVar("_Found")
_Offsets: TypeAlias = Mapping[TopicPartition, ToCommit]


class _Commit(NamedTuple):
    wanted: _Offsets
    deadline: float
    callback: CommitCallback | None


class BackgroundCommits:
    """The queue and the thread for a connector's commits in the background. The thread calls *commit* with
    the offsets and the deadline of each commit. A thread holds *lock* while it finds the offsets of a commit
    and queues the commit, so that no other commit is queued meanwhile.

    At most 1,000 commits wait in the queue. The thread starts when the first commit is queued.
    """

    def __init__(self, commit: Callable[[_Offsets, float], None], lock: threading.Lock) -> None:
        self._commit = commit
        self._lock = lock
        # A commit stays in its queue until it is made. Its outcome stays in the other queue until the
        # callback has returned.
        self._commits: deque[_Commit] = deque()
        self._outcomes: deque[tuple[_Commit, KafkaError | None]] = deque()
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = False
        self._making = new_making_lock()
        self._telling = False
        """True while the thread calls a callback, and so makes no commits."""
        self._thread: threading.Thread | None = None

    def put(
        self,
        find: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], _Offsets],
        timeout: float,
        callback: CommitCallback | None,
    ) -> None:
        """Queue a commit of the offsets that *find* returns. The thread makes the commit after all earlier
        commits, within *timeout* seconds, and then calls *callback*.

        This method calls *find* at once, with the newest offset of each partition among the commits that wait
        already. Raises KafkaTimeoutError if 1,000 commits are waiting and none of them ends within *timeout*
        seconds. Raises ClosedError after ``end`` was called.
        """
        deadline = time.monotonic() + timeout
        while not self._put(find, deadline, callback):
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(
                    f"offsets were not committed: {_MOST_WAITING} earlier commits are still waiting, and "
                    f"none of them ended within {timeout:.3g} s; call commit_offsets_async less often, or "
                    "use commit_offsets, which waits"
                )
            time.sleep(_POLL)

    def unless_waiting(self, find: Callable[[], _Found]) -> _Found | None:
        """Call *find* and return its result. Return None, and do not call *find*, while a commit waits or is
        being made."""
        with self._lock:
            return None if self._commits else find()

    def wait(self, timeout: float, *, for_callbacks: bool) -> bool:
        """Wait until all queued commits have been made. If *for_callbacks* is true, wait until their
        callbacks have returned too. Return False if that takes longer than *timeout* seconds.

        While the thread of this object runs a callback, it makes no commits, and the callback may wait for
        the calling thread. So the calling thread makes the commits itself during a callback. If a callback
        calls this method, the method also makes the commits itself, but does not wait for callbacks.
        """
        deadline = time.monotonic() + timeout
        in_callback = self.runs_here()
        if self._commits and not in_callback:
            with self._lock:  # an exception such as KeyboardInterrupt may have ended ``put`` half-way
                self._run_thread()
        while self._commits or (for_callbacks and not in_callback and self._outcomes):
            if time.monotonic() >= deadline:
                return False
            if self._commits and self._telling:
                self._make_next(until=deadline)
            else:
                time.sleep(_POLL)
        return True

    def runs_here(self) -> bool:
        """Return True if the calling thread is the one that makes the commits and calls the callbacks."""
        return threading.current_thread() is self._thread

    def end(self) -> None:
        """Make the thread end after it has made the commits that are queued now. This method acquires no lock
        and never waits."""
        self._ended = True
        self._wake.put(None)

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the thread to end, unless the calling thread is that thread."""
        thread = self._thread
        if thread is not None and thread.is_alive() and not self.runs_here():
            thread.join(timeout)

    def _put(
        self,
        find: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], _Offsets],
        deadline: float,
        callback: CommitCallback | None,
    ) -> bool:
        """Find the offsets of a commit, and queue the commit. Return False if too many commits wait."""
        with self._lock:
            if self._ended:
                raise ClosedError("offsets were not committed: this ConsumerConnector has been closed")
            waiting = len(self._commits) + len(self._outcomes)
            if waiting >= _MOST_WAITING and not self.runs_here():
                return False
            queued = {each: position.at for each, position in self._newest().items()}
            self._commits.append(_Commit(find(queued), deadline, callback))
            self._run_thread()
        return True

    def _newest(self) -> dict[TopicPartition, ToCommit]:
        newest: dict[TopicPartition, ToCommit] = {}
        for commit in self._commits.copy():
            newest.update(commit.wanted)
        return newest

    def _run_thread(self) -> None:
        """Wake the thread, or start it if it is not running."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="pyklient-commits", daemon=True)
            self._thread.start()
        if self._wake.empty():
            self._wake.put(None)

    def _run(self) -> None:
        # If an exception interrupts the start of this thread, another thread may be started and make the
        # commits.
        while self._thread is threading.current_thread():
            while self._commits or self._outcomes:
                if not self._outcomes:
                    self._make_next()
                self._tell_next()
            with self._lock:
                if self._ended and not self._commits:
                    return
            self._wake.get()

    def _make_next(self, until: float = math.inf) -> None:
        """Make the first commit of the queue, and queue its outcome for the callback. This method returns at
        the deadline of the commit, or at the time *until* if that is earlier.

        A commit that fails because the time *until* has come stays in the queue, and is made again later. If
        another thread is still making a commit at the time *until*, do nothing.
        """
        timeout = -1 if until == math.inf else max(0.0, until - time.monotonic())
        if not self._making.acquire(timeout=timeout):
            return
        try:
            if self._commits:
                self._make(self._commits[0], until)
        finally:
            self._making.release()

    def _make(self, commit: _Commit, until: float) -> None:
        error: KafkaError | None = KafkaError(
            "Ctrl-C or another exception from a signal handler interrupted the commit; call commit_offsets "
            "to make it again"
        )
        again = False
        try:
            self._commit(commit.wanted, min(commit.deadline, until))
            error = None
        except KafkaError as failure:
            error = failure
            timed_out = isinstance(failure, KafkaTimeoutError) or time.monotonic() >= until
            again = timed_out and until < commit.deadline
        except BaseException as failure:
            if not (isinstance(failure, Exception) or threading.current_thread() is self._thread):
                raise  # Ctrl-C in a thread of the program
            log.exception("a commit in the background raised an unexpected exception")
            error = KafkaError(f"the commit raised an unexpected {failure!r}")
        finally:
            if not again:
                self._outcomes.append((commit, error))
                self._commits.popleft()

    def _tell_next(self) -> None:
        """Call the callback of the first commit whose outcome is queued. If the commit has failed and has no
        callback, log the failure."""
        commit, error = self._outcomes[0]
        self._telling = True
        try:
            if commit.callback is not None:
                commit.callback({each: position.at for each, position in commit.wanted.items()}, error)
            elif error is not None:
                log.warning("offsets were not committed in the background: %s", error)
        except BaseException:  # sys.exit() in a callback must not end the commits of the connector
            log.exception("the callback of commit_offsets_async raised an exception")
        finally:
            self._telling = False
            self._outcomes.popleft()

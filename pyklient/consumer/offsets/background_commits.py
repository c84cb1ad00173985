"""Commits for which the program does not wait: one thread makes them in order, and calls their callbacks."""

import logging
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

from pyklient.consumer.offsets.uncommitted_positions import ToCommit
from pyklient.errors import ClosedError, KafkaError, KafkaTimeoutError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["BackgroundCommits", "CommitCallback"]

log = logging.getLogger("pyklient.consumer")

_MOST_WAITING = 1_000
_POLL = 0.005

CommitCallback: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], object]
"""A function that is called with the offsets of a commit, and its error or None."""

_Found = TypeVar("_Found")
_Offsets: TypeAlias = Mapping[TopicPartition, ToCommit]


class _Commit(NamedTuple):
    wanted: _Offsets
    deadline: float
    callback: CommitCallback | None


class BackgroundCommits:
    """The commits of one connector for which nobody waits. *commit* makes one of them, and is given its
    deadline. *lock* is held while the offsets of a commit are found and queued, so that no other commit is
    queued meanwhile.

    At most 1,000 commits wait. The thread starts with the first one.
    """

    def __init__(self, commit: Callable[[_Offsets, float], None], lock: threading.Lock) -> None:
        self._commit = commit
        self._lock = lock
        # A commit stays in its queue until it is made, and its outcome until the callback has returned.
        self._commits: deque[_Commit] = deque()
        self._outcomes: deque[tuple[_Commit, KafkaError | None]] = deque()
        self._wake: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = False
        self._thread: threading.Thread | None = None

    def put(
        self,
        find: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], _Offsets],
        timeout: float,
        callback: CommitCallback | None,
    ) -> None:
        """Commit what *find* returns within *timeout* seconds, after all earlier commits. Then call
        *callback*.

        *find* is called at once, with the newest offset of each partition in the commits that wait. Raises
        KafkaTimeoutError if 1,000 commits have been waiting for *timeout* seconds, and ClosedError after
        ``end``.
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
        """Return the result of *find*, or None if a commit waits or is being made."""
        with self._lock:
            return None if self._commits else find()

    def wait(self, timeout: float, *, for_callbacks: bool) -> bool:
        """Wait until all commits are made. With *for_callbacks*, wait until their callbacks have returned
        too.

        Return False if that takes longer than *timeout* seconds. If a callback calls this method, make the
        commits in the callback's thread within *timeout*, and do not wait for callbacks.
        """
        deadline = time.monotonic() + timeout
        if threading.current_thread() is self._thread:
            while self._commits:
                if time.monotonic() >= deadline:
                    return False
                self._make_next(until=deadline)
            return True
        if self._commits:
            with self._lock:  # an exception such as KeyboardInterrupt may have ended ``put`` half-way
                self._run_thread()
        while self._commits or (for_callbacks and self._outcomes):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL)
        return True

    def end(self) -> None:
        """Let the thread end after the commits that wait now. This call acquires no lock and never waits."""
        self._ended = True
        self._wake.put(None)

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the thread to end, unless the calling thread is that thread."""
        thread = self._thread
        if thread is not None and thread.is_alive() and thread is not threading.current_thread():
            thread.join(timeout)

    def _put(
        self,
        find: Callable[[Mapping[TopicPartition, OffsetAndMetadata]], _Offsets],
        deadline: float,
        callback: CommitCallback | None,
    ) -> bool:
        """Find and queue a commit. Return False if too many commits wait."""
        with self._lock:
            if self._ended:
                raise ClosedError("offsets were not committed: this ConsumerConnector has been closed")
            waiting = len(self._commits) + len(self._outcomes)
            if waiting >= _MOST_WAITING and threading.current_thread() is not self._thread:
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
        """Wake the thread. Start it if it does not run."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="pyklient-commits", daemon=True)
            self._thread.start()
        if self._wake.empty():
            self._wake.put(None)

    def _run(self) -> None:
        # An exception in the middle of a start may have made another thread the one that commits.
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
        """Make the first commit in the queue, before its deadline and *until*, and queue its outcome."""
        commit = self._commits[0]
        error: KafkaError | None = KafkaError(
            "offsets were not committed, because the commit was interrupted"
        )
        try:
            self._commit(commit.wanted, min(commit.deadline, until))
            error = None
        except KafkaError as failure:
            error = failure
        except BaseException as failure:
            log.exception("a commit in the background raised an unexpected exception")
            error = KafkaError(f"offsets were not committed, because of an unexpected {failure!r}")
        finally:
            self._outcomes.append((commit, error))
            self._commits.popleft()

    def _tell_next(self) -> None:
        """Call the callback of the first outcome. Log a failure that has no callback."""
        commit, error = self._outcomes[0]
        try:
            if commit.callback is not None:
                commit.callback({each: position.at for each, position in commit.wanted.items()}, error)
            elif error is not None:
                log.warning("offsets were not committed in the background: %s", error)
        except BaseException:  # sys.exit() in a callback must not end the commits of the connector
            log.exception("the callback of commit_offsets_async raised an exception")
        finally:
            self._outcomes.popleft()

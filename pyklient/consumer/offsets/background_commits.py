"""Commits for which the program does not wait: one thread makes them in order, and calls their callbacks."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from pyklient.consumer.offsets.uncommitted_positions import ToCommit
from pyklient.errors import KafkaError, KafkaTimeoutError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["BackgroundCommits", "CommitCallback"]

log = logging.getLogger("pyklient.consumer")

_MOST_WAITING = 1_000
_POLL = 0.005

CommitCallback: TypeAlias = Callable[[dict[TopicPartition, OffsetAndMetadata], KafkaError | None], object]
"""A function that is called with the offsets of a commit, and its error or None."""


class _Commit(NamedTuple):
    wanted: Mapping[TopicPartition, ToCommit]
    deadline: float
    callback: CommitCallback | None


class BackgroundCommits:
    """The commits of one connector for which nobody waits. *commit* makes one, until a deadline. *lock*
    guards the number of commits that are waiting.

    At most 1,000 commits wait. The thread starts with the first one.
    """

    def __init__(
        self, commit: Callable[[Mapping[TopicPartition, ToCommit], float], None], lock: threading.Lock
    ) -> None:
        self._commit = commit
        self._queue: queue.SimpleQueue[_Commit | None] = queue.SimpleQueue()
        self._lock = lock
        self._pending = 0
        self._thread: threading.Thread | None = None

    @property
    def pending(self) -> bool:
        """True while a commit waits or is being made."""
        return self._pending > 0

    def put(
        self, wanted: Mapping[TopicPartition, ToCommit], timeout: float, callback: CommitCallback | None
    ) -> None:
        """Commit *wanted* within *timeout* seconds, after all earlier commits. Then call *callback*.

        Raises KafkaTimeoutError if 1,000 commits have been waiting for *timeout* seconds.
        """
        deadline = time.monotonic() + timeout
        while not self._put(_Commit(wanted, deadline, callback)):
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(
                    f"{_MOST_WAITING} commits are waiting already, and none was made within {timeout:.3g} s; "
                    "call commit_offsets_async less often, or commit_offsets, which waits"
                )
            time.sleep(_POLL)

    def wait(self, timeout: float) -> bool:
        """Wait until all commits are made and their callbacks have returned.

        Return False if that takes longer than *timeout* seconds. If a callback calls this method, return True
        at once.
        """
        deadline = time.monotonic() + timeout
        while self.pending and threading.current_thread() is not self._thread:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL)
        return True

    def end(self) -> None:
        """Let the thread end after the commits that wait now. This call acquires no lock and never waits."""
        self._queue.put(None)

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the thread to end, unless the calling thread is that thread."""
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)

    def _put(self, commit: _Commit) -> bool:
        """Queue *commit*. Return False if too many commits wait."""
        with self._lock:
            if self._pending >= _MOST_WAITING and threading.current_thread() is not self._thread:
                return False
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="pyklient-commits", daemon=True)
                thread.start()
                self._thread = thread
            self._pending += 1
            self._queue.put(commit)
        return True

    def _run(self) -> None:
        while (commit := self._queue.get()) is not None:
            self._make(commit)
            with self._lock:
                self._pending -= 1

    def _make(self, commit: _Commit) -> None:
        error: KafkaError | None = None
        try:
            self._commit(commit.wanted, commit.deadline)
        except KafkaError as failure:
            error = failure
        if commit.callback is None:
            if error is not None:
                log.warning("offsets were not committed in the background: %s", error)
            return
        try:
            commit.callback({each: position.at for each, position in commit.wanted.items()}, error)
        except Exception:
            log.exception("the callback of commit_offsets_async raised an exception")

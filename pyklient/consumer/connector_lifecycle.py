"""The lifecycle of a connector, which begins to read once and ends once.

A connector ends when ``close()`` is called, at the end of its ``with`` block, at the end of the program, or
when the program no longer refers to it. A forked child process does not end the connector of its parent
process. The threads of a connector do not refer to its lifecycle, so the garbage collector can collect a
connector that the program does not use any more.
"""

import logging
import os
import threading
import time
import warnings
import weakref
from collections.abc import Sequence
from functools import partial

from pyklient.at_exit import call_at_exit
from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_committer import OffsetCommitter
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.locks import new_closing_lock
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import ClosedError, ForkError
from pyklient.net.network_client import NetworkClient

__all__ = ["CLOSE_TIMEOUT", "ConnectorLifecycle"]

log = logging.getLogger("pyklient.consumer")

CLOSE_TIMEOUT = 15.0
_EXIT_TIMEOUT = 5.0


class ConnectorLifecycle:
    """Starts and stops the parts of one connector. *streams* is the list of the connector's streams. The
    connector adds a stream to this list when it makes one.

    The connector and its streams refer to the ConnectorLifecycle. When the program refers to none of them any
    more, the connector is closed in the background, with a ResourceWarning.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        client: NetworkClient,
        fetchers: FetcherManager,
        membership: Membership,
        commits: OffsetCommitter,
        streams: Sequence[StreamCore],
    ) -> None:
        self._group_id = config.group_id
        self._client = client
        self._fetchers = fetchers
        self._membership = membership
        self._commits = commits
        self._streams = streams
        self.handler: AssignmentHandler | None = None
        """The assignment handler. None before the connector begins to read."""
        self._closed = False
        self._closing = new_closing_lock()
        self._closer: threading.Thread | None = None
        self._gone = threading.Event()
        self._forked = False
        _open.add(self)
        # What is registered last runs first: a broker in this process that was started before still serves.
        call_at_exit(_close_all)

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<ConsumerConnector of group {self._group_id!r}{state}>"

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or self._forked or self.handler is None:
            return
        # The garbage collector may run in any thread, whatever lock that holds: no more than a message.
        self._commits.background.end()
        self._fetchers.cancel_lookups()
        let_go = partial(self._fetchers.abandon, self._client.close)
        if not self._membership.abandon(let_go):
            let_go()
        elif self._group_id is not None:
            _leaving.add(self._membership)
        warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)

    def begin(self, membership: Membership, subscription: Subscription, handler: AssignmentHandler) -> None:
        """Begin to read *subscription* with *membership*. Return when the first partitions have been assigned
        to *handler*. After a failure, close the connector and raise the error."""
        self._membership = membership
        try:
            self._fetchers.start()
            self.handler = handler
            self._membership.start(subscription, handler)
        except BaseException:
            self.close(count_in_hand=False)
            raise

    def check_open(self, *, in_listener: bool = False) -> None:
        """Raise an error if the connector cannot be used: ForkError in a forked child process, and
        ClosedError if the connector has been closed.

        While the connector closes, its rebalance listener may still use it. The caller sets *in_listener* if
        the call comes from the listener.
        """
        if self._forked:
            raise ForkError(
                "this ConsumerConnector was made before a fork and belongs to the parent process; "
                "create a new one in the child process"
            )
        if self._closed and not in_listener:
            raise ClosedError("this ConsumerConnector has been closed; create a new one")

    def close(self, *, count_in_hand: bool, timeout: float = CLOSE_TIMEOUT) -> None:
        """Close the connector as ``ConsumerConnector.close`` describes. This takes about *timeout* seconds at
        most.

        If *count_in_hand* is true, the messages in hand are committed too.
        """
        if self._forked:
            self._closed = True
            return
        if not self._closing.acquire(blocking=False):  # for good: a connector is closed once
            self._wait_until_gone(count_in_hand, timeout)
            return
        self._closer, self._closed = threading.current_thread(), True
        _open.discard(self)
        if self._membership.runs_here():
            self._end_later(count_in_hand, timeout)
            return
        try:
            self._end(count_in_hand, time.monotonic() + timeout)
        finally:
            self._gone.set()

    def disown(self) -> None:
        """Mark the connector as one that belongs to the parent process. This is called in a forked child."""
        self._forked = True

    def _end(self, count_in_hand: bool, deadline: float) -> None:
        try:
            if self.handler is not None:
                # A commit callback that closes the connector makes the commits that wait behind it.
                left = max(0.0, deadline - time.monotonic())
                self._commits.background.wait(left / 2, for_callbacks=False)
                left = max(0.0, deadline - time.monotonic())
                self.handler.close(count_in_hand=count_in_hand, timeout=left)
                self._commits.background.wait(left / 2, for_callbacks=True)
                self._membership.leave(max(0.1, deadline - time.monotonic()))
        finally:
            self._client.close()
            self._commits.background.end()
            self._commits.background.join(max(0.1, deadline - time.monotonic()))
            self._fetchers.close(max(0.1, deadline - time.monotonic()))
            self._membership.join(max(0.1, deadline - time.monotonic()))
        if self.handler is not None and self.handler.auto_commit:
            self._commits.log_uncommitted()

    def _end_later(self, count_in_hand: bool, timeout: float) -> None:
        """Close the connector from its rebalance listener: end the streams now, and let the membership close
        everything else after the listener has returned."""
        client, gone = self._client, self._gone
        self._commits.background.end()

        def let_go() -> None:
            client.close()
            gone.set()

        if self.handler is not None:
            self.handler.close(count_in_hand=count_in_hand, timeout=timeout)
        if not self._membership.abandon(let_go):
            let_go()

    def _wait_until_gone(self, count_in_hand: bool, timeout: float) -> None:
        """Wait until another thread has closed the connector.

        Return at once if the calling thread itself is closing the connector. Also return at once if the
        calling thread runs a rebalance listener or a commit callback, because the thread that closes the
        connector waits until the listener or callback returns.
        """
        if threading.current_thread() is self._closer or self._membership.runs_here():
            return
        if self._commits.background.runs_here():
            return
        if count_in_hand:
            for stream in self._streams:
                stream.end()  # whose message this thread has in hand is not waited for: it is done with
        self._gone.wait(timeout)


_open: "weakref.WeakSet[ConnectorLifecycle]" = weakref.WeakSet()
_leaving: "weakref.WeakSet[Membership]" = weakref.WeakSet()
"""The memberships of connectors that the program has dropped without closing them. A membership is in this
set as long as its thread runs."""


def _close_all() -> None:
    """Close the connectors that are still open when the program ends, without committing messages in hand.

    Then wait until the connectors that the program had dropped without closing them have committed and left
    their groups. At the end, warn of each connector that the program had not closed. The warnings come last
    because Python may be set to raise an exception for a warning.
    """
    left_open = {lifecycle: repr(lifecycle) for lifecycle in list(_open)}
    for lifecycle, name in left_open.items():
        try:
            lifecycle.close(count_in_hand=False, timeout=_EXIT_TIMEOUT)
        except Exception as error:
            log.warning("at the end of the program, %s could not be closed properly: %s", name, error)
    deadline = time.monotonic() + _EXIT_TIMEOUT
    for membership in list(_leaving):
        membership.join(max(0.0, deadline - time.monotonic()))
    for name in left_open.values():
        warnings.warn(f"{name} was left open; use it in a with block", ResourceWarning, stacklevel=1)


def _mark_forked() -> None:
    for lifecycle in list(_open):
        lifecycle.disown()
    _open.clear()
    _leaving.clear()


os.register_at_fork(after_in_child=_mark_forked)

"""The two ways in which a classic producer sends: at once, or through a queue and a thread."""

import itertools
import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from pyklient.classic.callback_handler import CallbackHandler
from pyklient.classic.dropped_items import DroppedItems
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.event_queue import EventQueue
from pyklient.classic.locks import new_turn_lock
from pyklient.classic.partition_candidates import PartitionCandidates
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_send_thread import ProducerSendThread
from pyklient.counted import counted
from pyklient.errors import (
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
    QueueClosedError,
    QueueFullError,
)
from pyklient.kernel import EventBuffer
from pyklient.net.forked_clients import belongs_to_the_parent

__all__ = ["AsyncSending", "Sending", "SyncSending"]

log = logging.getLogger("pyklient.producer")

_GRACE: Final = 0.5
"""The number of seconds for which ``finish`` waits for a thread that was told to give up. The thread has to
end, or to leave the event handler, within this time."""


class Sending(ABC):
    """Sends the messages of a classic producer through its event handler."""

    @abstractmethod
    def send(self, items: Sequence[Any]) -> None:
        """Send *items*, or put them into the queue."""

    @property
    def buffer(self) -> EventBuffer | None:
        """The buffer of the queue, to which the kernel adds messages. None if each message first has to be
        handled by other code, such as a hook."""
        return None

    @abstractmethod
    def raise_if_closed(self) -> None:
        """Raise ClosedError if the producer is closed, or ForkError if it belongs to the parent process."""

    @abstractmethod
    def begin_close(self) -> ProducerSendThread | None:
        """Accept no more items. Return the thread that sends the queued items, or None if the producer is
        synchronous.

        This method does not wait, and takes only locks that a finalizer may take.
        """

    @abstractmethod
    def finish(self, deadline: float) -> None:
        """Wait until all accepted items are sent and the event handler is closed.

        Raises KafkaTimeoutError if that has not happened when ``time.monotonic()`` reaches *deadline*.
        """

    @abstractmethod
    def abandon(self) -> None:
        """Make ``send`` raise ForkError, because this is a child process after a fork."""


class SyncSending(Sending):
    """Hands items to the event handler in the calling thread, one call at a time."""

    def __init__(self, handler: EventHandler, candidates: PartitionCandidates | None) -> None:
        self._handler = handler
        self._candidates = candidates
        self._turn = new_turn_lock()
        """The lock that a thread holds while it runs the event handler."""
        self._closed: Callable[[], KafkaError] | None = None
        self._handler_closed = False
        self._has_no_time = False
        """True once ``finish`` has given up waiting. The thread that is sending then closes the handler."""

    def send(self, items: Sequence[Any]) -> None:
        """Send *items*. Raises the error of the event handler."""
        with self._turn:
            self.raise_if_closed()
            try:
                self._handler.handle(items)
            finally:
                if self._has_no_time:
                    self._close_handler()

    def raise_if_closed(self) -> None:
        """Raise ClosedError if the producer is closed, or ForkError if it belongs to the parent process."""
        if self._closed is not None:
            raise self._closed()

    def begin_close(self) -> None:
        """Accept no more items."""
        if self._closed is None:
            self._closed = _closed

    def finish(self, deadline: float) -> None:
        """Wait until no thread is sending, then close the event handler. At the *deadline*, interrupt the
        thread that is sending."""
        left = min(max(deadline - time.monotonic(), 0.0), threading.TIMEOUT_MAX)
        in_time = self._turn.acquire(timeout=left)
        if not in_time:
            self._has_no_time = True
            self._handler.interrupt()
            if not self._turn.acquire(timeout=_GRACE):
                raise KafkaTimeoutError(
                    "cannot close the producer in time: another thread is still sending messages; that "
                    "thread closes the event handler afterwards"
                )
        try:
            self._close_handler()
        finally:
            self._turn.release()
        if not in_time:
            raise KafkaTimeoutError(
                "the producer is closed, but another thread was still sending messages when the time-out of "
                "close had passed; these messages may not have been sent"
            )

    def abandon(self) -> None:
        """Make ``send`` raise ForkError."""
        self._turn = new_turn_lock()
        self._closed, self._handler_closed = belongs_to_the_parent, True

    def _close_handler(self) -> None:
        if self._handler_closed:
            return
        self._handler_closed = True
        try:
            self._handler.close()
        finally:
            if self._candidates is not None:
                self._candidates.close()


class AsyncSending(Sending):
    """Puts items into a queue, from which the send thread takes them."""

    def __init__(
        self,
        config: ClassicProducerConfig,
        handler: EventHandler,
        callback_handler: CallbackHandler | None,
        dropped: DroppedItems,
        candidates: PartitionCandidates | None,
    ) -> None:
        self._config = config
        self._callback_handler = callback_handler
        self._dropped = dropped
        wait = config.queue_enqueue_timeout_ms
        self._queue: EventQueue[Any] = EventQueue(
            config.queue_buffering_max_messages, None if wait < 0 else wait / 1000
        )
        self._thread = ProducerSendThread(
            f"ProducerSendThread-{config.client_id or next(_serial)}",
            self._queue,
            handler,
            callback_handler,
            dropped,
            candidates,
            item_class=config.item_class,
            queue_time=config.queue_buffering_max_ms / 1000,
            batch_size=config.batch_num_messages,
        )
        self._thread.start()

    @property
    def buffer(self) -> EventBuffer | None:
        """The buffer of the queue, to which the kernel adds messages. None if there are hooks, or if the
        producer follows the rules of Kafka 0.7: in these cases, the kernel must not add messages itself."""
        return None if self._config.is_0_7 or self._callback_handler is not None else self._queue.events

    def send(self, items: Sequence[Any]) -> None:
        """Put *items* into the queue, one after the other. Raises QueueFullError if an item does not fit: the
        items before it stay in the queue, and the items after it are not added."""
        if self._callback_handler is None:
            added = self._queue.put(items)
        else:
            added = self._put_with_hooks(items, self._callback_handler)
        if added < len(items):
            raise self._queue_full(items, added)

    def raise_if_closed(self) -> None:
        """Raise ClosedError if the producer is closed, or ForkError if it belongs to the parent process."""
        self._queue.raise_if_closed()

    def begin_close(self) -> ProducerSendThread:
        """Accept no more items. Calls of ``send`` that wait for space raise an error."""
        self._queue.close(_queue_closed if self._config.is_0_7 else _closed)
        return self._thread

    def finish(self, deadline: float) -> None:
        """Wait for the send thread, which closes the handlers. At the *deadline*, drop the queued items.

        This method does not wait if a handler calls it, because the send thread itself runs the handlers.
        """
        if self._thread.join(deadline - time.monotonic()):
            return
        error = KafkaTimeoutError("the time-out of close has passed, and not all messages were sent")
        dropped_before = self._dropped.count
        self._thread.give_up(error)
        ended = self._thread.join(_GRACE)  # the interrupted event handler drops the batch that it sends
        dropped = self._dropped.count - dropped_before
        raise KafkaTimeoutError(
            f"the producer could not send all queued messages in time: "
            f"{counted(dropped, 'of them was', 'of them were')} dropped"
            + ("" if ended else ", and its event handler is still sending a batch")
        )

    def abandon(self) -> None:
        """Make ``send`` raise ForkError. The parent process sends the queued items."""
        self._queue.abandon(belongs_to_the_parent)

    def _put_with_hooks(self, items: Sequence[Any], hooks: CallbackHandler) -> int:
        """Put *items* into the queue. Return the number of items that fit, which is also the index of the
        first item that does not fit."""
        for index, item in enumerate(items):
            self._queue.raise_if_closed()
            queued = hooks.before_enqueue(item)
            if not isinstance(queued, self._config.item_class):
                raise TypeError(
                    f"{type(hooks).__name__}.before_enqueue returned {queued!r}, which is not a "
                    f"{self._config.item_class.__name__}, so the message was not sent; the hook must return "
                    "the message to send"
                )
            added = False
            try:
                added = self._queue.put((queued,)) == 1
            finally:
                self._after_enqueue(hooks, queued, added)
            if not added:
                return index
        return len(items)

    def _after_enqueue(self, hooks: CallbackHandler, item: Any, added: bool) -> None:
        try:
            hooks.after_enqueue(item, added)
        except Exception:
            log.exception("%s.after_enqueue raised an exception", type(hooks).__name__)

    def _queue_full(self, items: Sequence[Any], added: int) -> QueueFullError:
        config = self._config
        size, wait = (
            ("queue.size", "queue.enqueueTimeout.ms")
            if config.is_0_7
            else ("queue.buffering.max.messages", "queue.enqueue.timeout.ms")
        )
        return QueueFullError(
            f"message {added + 1} of {len(items)}, for topic {items[added].topic!r}, was not accepted: the "
            f"queue is full ({size}={config.queue_buffering_max_messages}), and no space became free within "
            f"{wait}={config.queue_enqueue_timeout_ms}. The messages before this one are queued. Send this "
            "message and those after it again later"
        )


def _closed() -> ProducerClosedError:
    return ProducerClosedError("this producer has been closed; create a new one")


def _queue_closed() -> QueueClosedError:
    return QueueClosedError(
        "the queue of this producer is closed, because the producer has been closed; create a new producer"
    )


_serial: Final = itertools.count(1)

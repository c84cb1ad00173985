"""The thread of an asynchronous classic producer. It makes batches of the queued messages, and passes them to
the event handler.

A batch is passed to the event handler when it is full. It is also passed on when the queue is empty, and the
queue time (``queue.buffering.max.ms``) has passed since the previous batch. So if messages arrive all the
time, a batch may wait longer than the queue time until it is full, as in Kafka.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from pyklient.classic.callback_handler import CallbackHandler, HookResultError, returned_items
from pyklient.classic.dropped_items import DroppedItems, traceback_of
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.event_queue import EventQueue
from pyklient.classic.partition_candidates import PartitionCandidates
from pyklient.classic.queue_item import QueueItem
from pyklient.errors import FailedToSendMessageError, KafkaError
from pyklient.kernel import KeyedMessage

__all__ = ["ProducerSendThread"]

log = logging.getLogger("pyklient.producer")

_SHORTEST_QUEUE_TIME: Final = 0.001
"""The shortest queue time (``queue.buffering.max.ms``), in seconds. With a queue time of 0, the thread would
never pause while the queue is empty."""


class ProducerSendThread:
    """The thread that passes the queued messages to the event handler in batches. It also calls hooks of the
    callback handler.

    It ends when the queue is closed and empty. Then it closes the event handler, then the callback handler,
    and finally the *candidates*, which only a producer of Kafka 0.7 has. *queue_time* is in seconds.
    """

    def __init__(
        self,
        name: str,
        queue: EventQueue[Any],
        handler: EventHandler,
        callback_handler: CallbackHandler | None,
        dropped: DroppedItems,
        candidates: PartitionCandidates | None,
        *,
        item_class: type[KeyedMessage | QueueItem],
        queue_time: float,
        batch_size: int,
    ) -> None:
        self._queue = queue
        self._handler = handler
        self._callback_handler = callback_handler
        self._dropped = dropped
        self._candidates = candidates
        self._item_class = item_class
        self._queue_time = max(queue_time, _SHORTEST_QUEUE_TIME)
        self._batch_size = batch_size
        self._batch: list[Any] = []
        """The items that were removed from the queue and not yet passed to the event handler."""
        self._gave_up: KafkaError | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def name(self) -> str:
        """The name of the thread."""
        return self._thread.name

    def start(self) -> None:
        """Start the thread. Raise KafkaError if no thread can be started."""
        try:
            self._thread.start()
        except RuntimeError as error:
            raise KafkaError(
                f"the send thread of the producer cannot be started: {error}; perhaps the limit of threads "
                "is reached, or the program is ending"
            ) from error

    def give_up(self, error: KafkaError) -> None:
        """Drop the messages that are queued now, with *error* as the reason. Interrupt the event handler, and
        pass no more batches to it."""
        self._gave_up = error
        queued = list(self._queue.drain(self._queue.capacity))
        try:
            self._drop(queued, error)
        finally:
            self._interrupt()

    def join(self, timeout: float) -> bool:
        """Wait for the send thread to end. Return True if it has ended. If the send thread itself calls this
        method, return True at once."""
        if self.is_current():
            return True
        self._thread.join(min(max(timeout, 0.0), threading.TIMEOUT_MAX))
        return not self._thread.is_alive()

    def is_current(self) -> bool:
        """Return True if the calling thread is this thread."""
        return self._thread.ident == threading.get_ident()

    def _run(self) -> None:
        self._queue.begin_draining()
        try:
            self._make_batches()
            self._batch.extend(self._last_batch())
            self._handle_batch()
        except BaseException as error:  # such as a MemoryError between two batches
            self._fail(error)
        finally:
            for opened in (self._handler, self._callback_handler, self._candidates):
                if opened is not None:
                    self._close(opened)
            self._queue.end_draining()

    def _make_batches(self) -> None:
        """Pass batches to the event handler until the queue is closed and empty. The last batch stays in
        ``_batch`` if it is not full."""
        one_at_a_time = self._callback_handler is not None
        last_send = time.monotonic()
        while True:
            closed = self._queue.closed
            space = 1 if one_at_a_time else self._batch_size - len(self._batch)
            if taken := self._queue.drain(space):
                if one_at_a_time:
                    self._batch.extend(self._after_dequeuing(taken))
                else:
                    self._batch = self._batch + taken if self._batch else taken
                if len(self._batch) < self._batch_size:
                    continue
            elif closed:
                return
            elif (left := last_send + self._queue_time - time.monotonic()) > 0:
                self._queue.wait(space, left)
                continue
            elif one_at_a_time:
                self._batch.extend(self._after_dequeuing((None,)))
            self._handle_batch()
            last_send = time.monotonic()

    def _handle_batch(self) -> None:
        """Pass the batch to the event handler, and begin a new batch."""
        batch, self._batch = self._batch, []
        if self._gave_up is not None:
            self._drop(batch, self._gave_up)
            return
        if not batch:
            return
        try:
            self._handler.handle(batch)
        except BaseException as error:  # also SystemExit: the thread goes on with the next batch
            unsent = error.unsent if isinstance(error, FailedToSendMessageError) and error.unsent else batch
            self._dropped.add(unsent, error, _reason(f"{_name(self._handler)}.handle", error))

    def _fail(self, error: BaseException) -> None:
        """Close the queue because the thread has to end, and drop the current batch and the queued items."""
        reason = f"{self.name} has ended because of {error!r}"
        self._queue.close(lambda: KafkaError(f"{reason}; create a new producer"))
        queued = self._queue.drain(self._queue.capacity)
        log.error("%s; the producer accepts no more messages", reason, exc_info=error)
        self._dropped.add([*self._batch, *queued], error, reason)

    def _interrupt(self) -> None:
        try:
            self._handler.interrupt()
            if self._candidates is not None:
                self._candidates.interrupt()
        except Exception:
            log.exception(
                "%s.interrupt raised an exception; close() continues, although the event handler may still "
                "be sending",
                _name(self._handler),
            )

    def _drop(self, items: Sequence[Any], error: KafkaError) -> None:
        self._dropped.add(items, error, f"{self.name} has not sent all messages before the time-out of close")

    def _after_dequeuing(self, items: Iterable[Any]) -> Iterator[Any]:
        """Yield the items that the callback handler returns instead of *items*."""
        hooks = self._callback_handler
        assert hooks is not None
        hook = f"{_name(hooks)}.after_dequeuing_existing_data"
        for item in items:
            try:
                returned = returned_items(hooks.after_dequeuing_existing_data(item), self._item_class, hook)
            except BaseException as error:  # also SystemExit, which must not end the thread
                failed = _reason(hook, error)
                if item is None:
                    log.error(failed, exc_info=traceback_of(error))
                self._dropped.add([] if item is None else [item], error, failed)
            else:
                yield from returned

    def _last_batch(self) -> Sequence[Any]:
        hooks = self._callback_handler
        if hooks is None:
            return ()
        hook = f"{_name(hooks)}.last_batch_before_close"
        try:
            return returned_items(hooks.last_batch_before_close(), self._item_class, hook)
        except BaseException as error:
            log.error(
                "%s, so this hook adds nothing to the last batch of the producer",
                _reason(hook, error),
                exc_info=traceback_of(error),
            )
            return ()

    def _close(self, opened: EventHandler | CallbackHandler | PartitionCandidates) -> None:
        try:
            opened.close()
        except BaseException:
            log.exception("%s.close raised an exception", _name(opened))


def _reason(called: str, error: BaseException) -> str:
    """Return a text for the log about *error*. *called* is the name of the hook or of the event handler that
    has raised it."""
    return str(error) if isinstance(error, HookResultError) else f"{called} failed: {error!r}"


def _name(handler: object) -> str:
    return type(handler).__name__

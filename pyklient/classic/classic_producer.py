"""ClassicProducer: the producer of Kafka 0.7 to 0.10, with its queue, handlers and hooks."""

import logging
import os
import time
import warnings
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from pyklient import argument_checks
from pyklient.at_exit import call_at_exit
from pyklient.classic.callback_handler import CallbackHandler
from pyklient.classic.default_event_handler import DefaultEventHandler
from pyklient.classic.dropped_items import DroppedItems
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.multi_send_event_handler import MultiSendEventHandler
from pyklient.classic.partition_candidates import PartitionCandidates
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_data import ProducerData
from pyklient.classic.producer_send_thread import ProducerSendThread
from pyklient.classic.queue_item import QueueItem
from pyklient.classic.sending import AsyncSending, Sending, SyncSending
from pyklient.config.properties_files import Properties, properties_or_file
from pyklient.errors import ConfigurationError, KafkaError, KafkaTimeoutError
from pyklient.kernel import EventSender, KeyedMessage
from pyklient.properties.producer_properties import producer_properties
from pyklient.properties.profile import ProfileName

__all__ = ["ClassicProducer"]

log = logging.getLogger("pyklient.producer")

_CLOSE_TIMEOUT: Final = 120.0
"""The number of seconds for which ``close`` waits if the caller gives no time-out."""
_UNWIND_TIMEOUT: Final = 10.0
"""The number of seconds for which queued messages are still sent when an exception leaves the ``with`` block,
or when the program ends."""
_LAST_WAIT: Final = 0.5
"""The number of seconds that a send thread has, at the end of the program, to log the messages that it
dropped."""


class ClassicProducer(EventSender):
    """The producer of Kafka 0.7 to 0.10, as the documents of these versions describe it.

    With ``producer.type=sync``, ``send`` returns when the brokers have answered. With ``async``, it puts the
    messages into a queue; a thread sends them in batches. The thread drops messages that cannot be sent: it
    logs them, counts them in ``dropped_count``, and calls ``CallbackHandler.on_dropped``.

    An *event_handler* replaces the default one, which sends the batches to the brokers. The hooks of a
    *callback_handler* observe and change the messages of an asynchronous producer. Several threads may share
    one producer.
    """

    def __init__(
        self,
        config: ClassicProducerConfig,
        *,
        callback_handler: CallbackHandler | None = None,
        event_handler: EventHandler | None = None,
    ) -> None:
        if not isinstance(config, ClassicProducerConfig):
            raise TypeError(
                f"config must be a ClassicProducerConfig, not {config!r}; to make one from properties, "
                "call ClassicProducer.from_properties"
            )
        _check_handler(callback_handler, "callback_handler", CallbackHandler)
        _check_handler(event_handler, "event_handler", EventHandler)
        self._config = config
        self._dropped = DroppedItems(callback_handler)
        self._candidates: PartitionCandidates | None = None
        with ExitStack() as opened:  # Closes everything again if an exception is raised.
            if config.is_0_7:
                self._candidates = PartitionCandidates(config)
                opened.callback(self._candidates.close)
            self._own: EventHandler | PartitionCandidates | None = self._candidates
            if event_handler is None:
                self._own = event_handler = self._default_handler(callback_handler)
            event_handler.init(config.event_handler_props)
            opened.callback(event_handler.close)
            self._sending = self._start(event_handler, callback_handler, opened)
            opened.pop_all()
        self._closed = False
        self._buffer = self._sending.buffer
        _producers.add(self)
        call_at_exit(_close_all)

    @classmethod
    def from_properties(
        cls,
        properties: Properties,
        profile: ProfileName,
        *,
        callback_handler: CallbackHandler | None = None,
        event_handler: EventHandler | None = None,
    ) -> Self:
        """Make a producer from *properties*, which may be the path of a file with lines ``name=value``. The
        *profile* is the Kafka version whose property names, defaults and rules apply: "0.7", "0.8" or "0.10".

        A handler may be passed as an argument, or named by the property ``callback.handler`` or
        ``event.handler``. Raises ConfigurationError for wrong properties.
        """
        made = producer_properties(properties_or_file(properties), profile)
        return cls(
            ClassicProducerConfig(**made.options),
            callback_handler=_one_of("callback", CallbackHandler, callback_handler, made.callback_handler),
            event_handler=_one_of("event", EventHandler, event_handler, made.event_handler),
        )

    @property
    def dropped_count(self) -> int:
        """The number of messages that were in the queue and were then dropped. The drops are logged too."""
        return self._dropped.count

    def _send_slowly(self, *messages: Any) -> None:
        """Send messages that the kernel does not put into the queue itself, for example because the producer
        is synchronous."""
        if self._candidates is not None:
            self._sending.raise_if_closed()
            self._sending.send(_queue_items(messages, self._candidates))
            return
        for message in messages:
            if not isinstance(message, KeyedMessage):
                raise TypeError(f"send takes KeyedMessages, not {type(message).__name__}")
        self._sending.send(messages)

    def close(self, timeout: float | None = None) -> None:
        """Send the queued messages, then end the send thread and close the connections. Further calls do
        nothing.

        The event handler is closed after the last batch, and the callback handler after that. After *timeout*
        seconds (by default two minutes), the messages that are still queued are dropped and logged, and
        KafkaTimeoutError is raised.
        """
        seconds = _CLOSE_TIMEOUT if timeout is None else argument_checks.seconds(timeout, "timeout")
        self._closed = True
        _producers.discard(self)
        self._sending.begin_close()
        self._sending.finish(time.monotonic() + seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(_UNWIND_TIMEOUT)
        except KafkaError as failure:
            log.warning(
                "after the exception %r, the producer could not be closed properly: %s", error, failure
            )

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<ClassicProducer {self._config.profile} {self._config.producer_type}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a ClassicProducer cannot be pickled: it holds connections and threads. Create it where it is "
            "used, for example once in each process, from the same properties"
        )

    def __del__(self) -> None:
        if getattr(self, "_closed", True):
            return
        self._closed = True
        # The garbage collector may run in any thread, with any lock held: so do not wait for queued
        # messages, and call no handler of the program.
        thread = self._sending.begin_close()
        if thread is not None:
            _ending.add(thread)
        elif self._own is not None:
            self._own.interrupt()
        warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)

    def _default_handler(self, callback_handler: CallbackHandler | None) -> EventHandler:
        hooks = callback_handler if self._config.producer_type == "async" else None
        if self._candidates is None:
            return DefaultEventHandler(self._config, hooks, self._dropped)
        return MultiSendEventHandler(self._config, self._candidates, hooks, self._dropped)

    def _start(
        self, event_handler: EventHandler, callback_handler: CallbackHandler | None, opened: ExitStack
    ) -> Sending:
        """Return the object that sends the messages. If the producer is asynchronous, prepare the callback
        handler and start the send thread. *opened* then closes the callback handler if a later step fails."""
        if self._config.producer_type == "async":
            if callback_handler is not None:
                callback_handler.init(self._config.callback_handler_props)
                opened.callback(callback_handler.close)
            return AsyncSending(
                self._config, event_handler, callback_handler, self._dropped, self._candidates
            )
        if callback_handler is not None:
            log.warning(
                "a synchronous producer has no queue, so it does not call the callback handler; set "
                "producer.type=async"
            )
        return SyncSending(event_handler, self._candidates)

    def _abandon(self) -> None:
        """Make every call raise ForkError, because this is a child process after a fork."""
        self._closed = True
        self._sending.abandon()


def _one_of(kind: str, base: type, passed: Any, named: Any) -> Any:
    """Return the handler that was *passed* as an argument or *named* by a property; None if there is neither.
    Raises ConfigurationError if there are both, or if the named handler is not an instance of *base*. *kind*
    is "callback" or "event"."""
    if passed is not None and named is not None:
        raise ConfigurationError(
            f"the property {kind}.handler and the argument {kind}_handler both name a handler; remove one of "
            "the two"
        )
    if not isinstance(named, base | None):
        raise ConfigurationError(
            f"{kind}.handler names {named!r}, but its class must be a subclass of pyklient.{base.__name__}"
        )
    return named if passed is None else passed


def _check_handler(handler: object, name: str, base: type) -> None:
    """Raise TypeError unless *handler* is None or an instance of *base*. Also raise TypeError if a method of
    *handler* that the producer calls is a coroutine function."""
    if not isinstance(handler, base | None):
        made = f"; pass an object: {handler.__name__}()" if isinstance(handler, type) else ""
        raise TypeError(f"{name} takes a pyklient.{base.__name__}, not {handler!r}{made}")
    if handler is not None:
        for method in vars(base):
            if not method.startswith("_"):
                argument_checks.plain_function(getattr(handler, method), f"{type(handler).__name__}.{method}")


def _queue_items(messages: Sequence[Any], candidates: PartitionCandidates) -> list[QueueItem]:
    """Choose a partition for each of *messages*, and return them as items for these partitions."""
    for data in messages:
        if not isinstance(data, ProducerData):
            raise TypeError(f"with profile='0.7', send takes ProducerData, not {type(data).__name__}")
    return [item for data in messages for item in candidates.queue_items(data)]


_producers: "weakref.WeakSet[ClassicProducer]" = weakref.WeakSet()
_ending: "weakref.WeakSet[ProducerSendThread]" = weakref.WeakSet()
"""The send threads of producers that were garbage collected. A thread is in this set until it ends."""


def _abandon_all() -> None:
    for producer in list(_producers):
        producer._abandon()
    _producers.clear()
    _ending.clear()


def _close_all() -> None:
    """At the end of the program, send the messages of all producers that were not closed, even of those that
    were garbage collected.

    The warnings about producers that were left open come last, because a warning raises an exception if
    Python treats warnings as errors.
    """
    left_open = {producer: repr(producer) for producer in list(_producers)}
    deadline = time.monotonic() + _UNWIND_TIMEOUT
    for producer in left_open:
        producer._sending.begin_close()
    for producer, name in left_open.items():
        try:
            producer.close(max(0.0, deadline - time.monotonic()))
        except Exception as error:
            log.warning("at the end of the program, %s could not be closed properly: %s", name, error)
    for thread in list(_ending):
        if not thread.join(deadline - time.monotonic()):
            thread.give_up(
                KafkaTimeoutError(
                    "the queued messages could not be sent in time at the end of the program; close the "
                    "producer before the program ends"
                )
            )
            thread.join(_LAST_WAIT)
    for producer, name in left_open.items():
        warnings.warn(f"{name} was never closed", ResourceWarning, source=producer, stacklevel=1)


os.register_at_fork(after_in_child=_abandon_all)

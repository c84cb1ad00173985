"""ClassicProducer: the producer of Kafka 0.7 to 0.10, with its queue, handlers and hooks."""

import logging
import os
import time
import warnings
import weakref
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from pyklient import argument_checks
from pyklient.at_exit import call_at_exit
from pyklient.classic.callback_handler import CallbackHandler
from pyklient.classic.default_event_handler import DefaultEventHandler
from pyklient.classic.dropped_items import DroppedItems
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.keyed_message import KeyedMessage
from pyklient.classic.multi_send_event_handler import MultiSendEventHandler
from pyklient.classic.partition_candidates import PartitionCandidates
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_data import ProducerData
from pyklient.classic.producer_send_thread import ProducerSendThread
from pyklient.classic.queue_item import QueueItem
from pyklient.classic.sending import AsyncSending, Sending, SyncSending
from pyklient.errors import ConfigurationError, KafkaError, KafkaTimeoutError
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
"""The number of seconds that a send thread has at the end of the program to log the batch that it dropped."""


class ClassicProducer:
    """The producer of Kafka 0.7 to 0.10, as the documents of these versions describe it.

    With ``producer.type=sync``, ``send`` returns when the brokers have answered. With ``async``, it puts the
    messages into a queue; a thread sends them in batches. The thread drops messages that cannot be sent: it
    logs them, counts them in ``dropped_count``, and calls ``CallbackHandler.on_dropped``.

    An *event_handler* replaces the default one, which sends the batches to the brokers. The hooks of a
    *callback_handler* follow and change what an asynchronous producer sends. Several threads may share one
    producer.
    """

    def __init__(
        self,
        config: ClassicProducerConfig,
        *,
        callback_handler: CallbackHandler | None = None,
        event_handler: EventHandler | None = None,
    ) -> None:
        self._config = config
        self._dropped = DroppedItems(callback_handler)
        self._candidates = PartitionCandidates(config) if config.is_0_7 else None
        hooks = callback_handler if config.producer_type == "async" else None
        if event_handler is None:
            event_handler = (
                DefaultEventHandler(config, hooks, self._dropped)
                if self._candidates is None
                else MultiSendEventHandler(config, self._candidates, hooks, self._dropped)
            )
        event_handler.init(config.event_handler_props)
        self._sending: Sending
        if config.producer_type == "async":
            if callback_handler is not None:
                callback_handler.init(config.callback_handler_props)
            self._sending = AsyncSending(
                config, event_handler, callback_handler, self._dropped, self._candidates
            )
        else:
            if callback_handler is not None:
                log.warning(
                    "a synchronous producer has no queue, so it does not call the callback handler; set "
                    "producer.type=async"
                )
            self._sending = SyncSending(event_handler, self._candidates)
        self._closed = False
        _producers.add(self)
        call_at_exit(_close_all)

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, object],
        profile: ProfileName,
        *,
        callback_handler: CallbackHandler | None = None,
        event_handler: EventHandler | None = None,
    ) -> Self:
        """Make a producer from *properties*, which have the names, defaults and rules of a *profile*.

        A handler may be passed as an argument, or named by the property ``callback.handler`` or
        ``event.handler``. Raises ConfigurationError for wrong properties.
        """
        made = producer_properties(properties, profile)
        return cls(
            ClassicProducerConfig(**made.options),
            callback_handler=_one_of("callback", callback_handler, made.callback_handler),
            event_handler=_one_of("event", event_handler, made.event_handler),
        )

    @property
    def dropped_count(self) -> int:
        """The number of messages that were in the queue and were then dropped. The drops are logged too."""
        return self._dropped.count

    def send(self, *messages: Any) -> None:
        """Send *messages*: KeyedMessages, or ProducerData in the profile 0.7.

        A synchronous producer raises the error of its event handler, such as FailedToSendMessageError. An
        asynchronous producer only puts the messages into its queue, one after the other. While the queue is
        full, the call waits as long as the properties say. If there is still no space for a message, the call
        raises QueueFullError: the messages before this message are queued, and this message and the messages
        after it are not.

        Raises TypeError for anything that is not a message, ProducerClosedError after ``close``
        (QueueClosedError in the profile 0.7, if the producer is asynchronous), and ForkError in the child of
        a fork.
        """
        if self._candidates is not None:
            self._sending.send(_queue_items(messages, self._candidates))
            return
        for message in messages:
            if not isinstance(message, KeyedMessage):
                raise TypeError(f"send takes KeyedMessages, not {type(message).__name__}")
        self._sending.send(messages)

    def close(self, timeout: float | None = None) -> None:
        """Send the queued messages, then end the thread and close the connections. Further calls do nothing.

        The event handler is closed after the last batch, and the callback handler after that. After *timeout*
        seconds (None: after two minutes), the messages that are still queued are dropped, which is logged,
        and KafkaTimeoutError is raised.
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
        # The garbage collector may run in any thread, with any lock held: so do not wait.
        thread = self._sending.begin_close()
        if thread is not None:
            _ending.add(thread)
        warnings.warn(f"{self!r} was never closed", ResourceWarning, source=self, stacklevel=2)

    def _abandon(self) -> None:
        """Make every call raise ForkError, because this is a child process after a fork."""
        self._closed = True
        self._sending.abandon()


def _one_of(kind: str, passed: Any, named: Any) -> Any:
    """Return the handler that was *passed* as an argument or *named* by a property."""
    if passed is not None and named is not None:
        raise ConfigurationError(
            f"the property {kind}.handler and the argument {kind}_handler both name a handler; remove one of "
            "the two"
        )
    return named if passed is None else passed


def _queue_items(messages: Sequence[Any], candidates: PartitionCandidates) -> list[QueueItem]:
    """Choose a partition for each of *messages*, and return them as items for these partitions."""
    for data in messages:
        if not isinstance(data, ProducerData):
            raise TypeError(f"send takes ProducerData in the profile 0.7, not {type(data).__name__}")
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
            thread.give_up(KafkaTimeoutError("the program ends, and the time for queued messages has passed"))
            thread.join(_LAST_WAIT)
    for producer, name in left_open.items():
        warnings.warn(f"{name} was never closed", ResourceWarning, source=producer, stacklevel=1)


os.register_at_fork(after_in_child=_abandon_all)

"""The Producer, the client with which users send records."""

import logging
import os
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self, Unpack, overload

from pyklient import argument_checks
from pyklient.at_exit import call_at_exit
from pyklient.config import DEFAULT_SERVERS, ProducerConfig, dotted_names
from pyklient.config.dotted_names import by_option_name
from pyklient.config.keyword_types import ProducerOptions
from pyklient.config.properties_files import Properties, properties_or_file
from pyklient.counted import counted
from pyklient.errors import ClosedError, ConfigurationError, ForkError, KafkaError, KafkaTimeoutError
from pyklient.kernel import Batch, Delivery
from pyklient.net.network_client import NetworkClient
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.assembly import assemble
from pyklient.producer.bulk_delivery import BulkDelivery
from pyklient.producer.deliver.sender import Sender
from pyklient.producer.gathered_metrics import producer_metrics
from pyklient.producer.send_arrow import send_arrow
from pyklient.producer.send_many import send_many
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.transactional_producer import UNWIND_TIMEOUT, TransactionalProducer

if TYPE_CHECKING:  # imported when they are used, which few programs do
    from pyklient.classic.callback_handler import CallbackHandler
    from pyklient.classic.classic_producer import ClassicProducer
    from pyklient.classic.event_handler import EventHandler
    from pyklient.metrics import ProducerMetrics
    from pyklient.properties.profile import ProfileName

__all__ = ["Producer"]

log = logging.getLogger("pyklient.producer")

_GRACE: Final = 5.0
"""The seconds that ``close`` waits, after its time-out, for the producer's threads to end."""


class Producer(TransactionalProducer):
    """A client that sends records. Several threads may share one Producer; a process usually has only one.

    Records are gathered in batches per partition, and a thread of the producer sends the batches. With the
    default options (``acks="all"``, idempotence) each record is stored once, in order, by all in-sync
    replicas, or its Delivery tells why not. The options are those of ``ProducerConfig``. The producer
    connects to the cluster at the first ``send``.

    ::

        with Producer("localhost:9092") as producer:
            delivery = producer.send("clicks", b"home", key=b"user-1")
            print(delivery.result(timeout=10).offset)
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = DEFAULT_SERVERS, **options: Unpack[ProducerOptions]
    ) -> None:
        config = ProducerConfig.from_options(by_option_name(ProducerConfig, bootstrap_servers, options))
        if config.loses_idempotence is not None:
            log.warning(
                "the option %s turns idempotence off: a retry may store a record twice or out of order. Set "
                "enable_idempotence=False if this is intended",
                config.loses_idempotence,
            )
        self._config = config
        self._client = NetworkClient(config)
        lookout = 0.0 if config.transactional_id is None else config.linger_ms / 1000
        self._thread = SenderThread(f"pyklient-producer {config.client_id}", lookout=lookout)
        self._accumulator, self._sender, self._transactions = assemble(config, self._client, self._thread)
        self._closed = self._forked = False
        if type(self).send is Producer.send:
            # The caller calls the kernel directly, without a Python frame in between.
            self.__dict__["send"] = self._accumulator.appender.send
        _producers.add(self)
        # The function that is registered last runs first: a broker that was started in this process before
        # the producer still runs then.
        call_at_exit(_close_all)

    @overload
    @classmethod
    def from_properties(cls, properties: Properties, profile: None = None) -> Self: ...

    @overload
    @classmethod
    def from_properties(
        cls,
        properties: Properties,
        profile: "ProfileName",
        *,
        callback_handler: "CallbackHandler | None" = None,
        event_handler: "EventHandler | None" = None,
    ) -> "ClassicProducer": ...

    @classmethod
    def from_properties(
        cls,
        properties: Properties,
        profile: "ProfileName | None" = None,
        *,
        callback_handler: "CallbackHandler | None" = None,
        event_handler: "EventHandler | None" = None,
    ) -> "Self | ClassicProducer":
        """Make a producer from properties of Kafka's Java producer, or of its Scala producer if *profile* is
        given. *properties* may be the path of a file with lines ``name=value``.

        With a profile, the properties have the names, defaults and rules of that version of Kafka, and the
        result is a ClassicProducer. The two handlers need a profile. Instead of passing a handler, you may
        name its class in the property ``callback.handler`` or ``event.handler``. Raises ConfigurationError
        for wrong properties.
        """
        if profile is None:
            if callback_handler is not None or event_handler is not None:
                raise ConfigurationError(
                    "callback_handler and event_handler belong to the classic producer: pass a profile too, "
                    "such as '0.8'"
                )
            return cls(**dotted_names.from_properties(ProducerConfig, properties_or_file(properties)))
        from pyklient.classic.classic_producer import ClassicProducer

        return ClassicProducer.from_properties(
            properties, profile, callback_handler=callback_handler, event_handler=event_handler
        )

    def send(
        self,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Send one record, without waiting for the broker. Return its Delivery, which the caller may ignore.

        *value* and *key* are bytes or None, or objects that ``value_encoder`` and ``key_encoder`` accept. The
        record goes to *partition* if that is given. Otherwise its key decides (as in Java's client, or by the
        ``partitioner``), and records without a key are spread over the partitions in batches. *timestamp_ms*
        is in milliseconds since 1970; None means now. *headers* are (name, value) pairs; a value may be None.

        ``on_delivery(delivery)`` is called when the outcome is known, on a thread of the producer, one call
        at a time. Exceptions that it raises are logged. A ``send`` inside the callback never waits for
        memory. It may use the memory of the batch whose outcome is reported, and raises BufferFullError if it
        needs more.

        This call waits for at most ``max_block_ms`` in two cases. If ``buffer_memory`` is full, it waits for
        memory, and raises BufferFullError if too little is released. For a new topic, it waits for a leader.
        If it finds none, it raises BrokerError (no such topic, no leader, not allowed), or
        BrokerConnectionError or KafkaTimeoutError (no broker can be reached). It raises TypeError and
        ConfigurationError for wrong arguments, MessageTooLargeError above ``max_request_size``, ClosedError
        after ``close``, and ForkError in the child of a fork.
        """
        return self._accumulator.appender.send(
            topic, value, key, partition, timestamp_ms, headers, on_delivery
        )

    def send_many(
        self,
        topic: str,
        values: Iterable[Any],
        keys: Iterable[Any] | None = None,
        headers: Iterable[Sequence[tuple[str, bytes | None]] | None] | None = None,
        partition: int | None = None,
        timestamps_ms: Iterable[int | None] | None = None,
    ) -> BulkDelivery:
        """Send one record for each of *values*, with the same effect as a call of ``send`` for each record.

        This is faster than ``send`` in a loop. *keys*, *headers* and *timestamps_ms* have one item for each
        value. All records go to *partition*, if that is given. The call reads up to 1,000 items of each
        iterable before it sends them. It waits for memory as often as needed, for at most ``max_block_ms``
        each time. If one of the iterables raises an exception, or a record cannot be sent, that exception is
        raised. The earlier records are sent, and a note on the exception counts them.
        """
        argument_checks.several(values, "values")
        for name, column in (("keys", keys), ("headers", headers), ("timestamps_ms", timestamps_ms)):
            if column is not None:
                argument_checks.several(column, name)
        argument_checks.text(topic, "topic")
        return send_many(self._accumulator, topic, values, keys, headers, partition, timestamps_ms)

    def send_arrow(self, topic: str, data: Any, *, partition: int | None = None) -> BulkDelivery:
        """Send a record for each row of the Arrow data *data*, as ``send_many`` would.

        This is much faster than ``send_many``, because no Python object is made for a row. It needs pyarrow
        (the extra ``arrow``) and raises ModuleNotFoundError without it.

        *data* is a pyarrow Table, RecordBatch or RecordBatchReader, or any object with ``__arrow_c_stream__``
        or ``__arrow_c_array__``, such as a data frame. It has a column ``value`` (binary or string) and may
        have ``key`` (binary or string), ``partition`` (integers), ``timestamp`` (timestamps, or integers:
        milliseconds since 1970) and ``headers`` (``list<struct<key: string, value: binary>>``). A null means
        the same as None in ``send``. All rows go to *partition*, if that is given.

        Before anything is sent, raises ConfigurationError or TypeError if there are other columns or types,
        if *data* is not Arrow data, or if the producer has encoders. A row that cannot be sent raises the
        same error as in ``send``. The rows before it are sent, and a note on the exception gives their
        number.
        """
        if self._config.key_encoder is not None or self._config.value_encoder is not None:
            raise ConfigurationError(
                "send_arrow does not use encoders, but this producer has a key_encoder or a value_encoder: "
                "use a producer without encoders"
            )
        return send_arrow(self._accumulator.appender, self.send, topic, data, partition)

    def flush(self, timeout: float | None = None) -> None:
        """Send all batches now. Wait until every record sent so far is confirmed or has failed, and its
        ``on_delivery`` has been called.

        Raises KafkaTimeoutError with the last failure after *timeout* seconds (by default at most
        ``delivery_timeout_ms``). Raises DeliveryError if records have failed, now or since the last
        ``flush``, and no callback, ``result`` or ``exception`` has shown the failure.
        """
        wait = None if timeout is None else argument_checks.seconds(timeout, "timeout")
        self._accumulator.raise_if_closed()
        self._flush(None if wait is None else time.monotonic() + wait)
        error = self._accumulator.tracker.report()
        if error is not None:
            raise error

    def metrics(self) -> "ProducerMetrics":
        """Return what this producer has done so far: records, bytes, rates, queue times, errors, and the
        requests to each broker.

        The call does not wait, and does not slow down the sending threads. It works after ``close`` too.
        """
        return producer_metrics(self._config, self._client, self._accumulator)

    def close(self, timeout: float | None = None) -> None:
        """Flush, and end the threads and connections. Further calls do nothing.

        Records that are not confirmed after *timeout* seconds (by default at most ``delivery_timeout_ms``)
        fail with ClosedError; 0 gives them no time at all. Records of a deleted topic fail sooner, with
        BrokerError, once the brokers have said for 5 seconds that the topic does not exist. With ``acks=0``,
        the brokers have at most two seconds of *timeout* to handle the last records; a warning is logged for
        each broker that has not handled them. At the end, raises the errors of ``flush``.
        """
        self._close(None if timeout is None else argument_checks.seconds(timeout, "timeout"))
        error = self._accumulator.tracker.report()
        if error is not None:
            raise error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
            return
        try:
            self.close(UNWIND_TIMEOUT)
        except KafkaError as failure:
            log.warning(
                "after the exception %r, the producer could not be closed properly: %s", error, failure
            )

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<Producer to {self._config.cluster!r}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Producer cannot be pickled: it holds connections and threads. Create it where it is used, for "
            "example once in each process, from the same options"
        )

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or not self._thread.started:
            return
        name = repr(self)
        # The garbage collector may run in any thread, with any lock held: so only post a call.
        self._closed = True
        accumulator, deadline = self._accumulator, time.monotonic() + UNWIND_TIMEOUT
        self._thread.post(partial(_end, accumulator, self._sender, deadline))
        _ending.add(self._thread)
        warnings.warn(f"{name} was never closed", ResourceWarning, source=self, stacklevel=2)

    def _flush(self, deadline: float | None) -> None:
        batches = self._accumulator.seal_open_batches()
        self._thread.post(self._sender.flush)
        if not self._accumulator.tracker.wait_for_all(batches, deadline):
            raise self._not_in_time([batch for batch in batches if not batch.done])
        if not self._thread.catch_up(None if deadline is None else deadline - time.monotonic()):
            raise KafkaTimeoutError(
                "all records are confirmed or have failed, but some on_delivery callbacks did not end in time"
            )

    def _not_in_time(self, batches: list[Batch]) -> KafkaTimeoutError:
        count = sum(batch.count for batch in batches)
        records_were = counted(count, "record was", "records were")
        failure = next(filter(None, map(self._sender.last_failure, batches)), None)
        last_failure = "" if failure is None else f"; the last failure: {failure}"
        error = KafkaTimeoutError(
            f"{records_were} not confirmed in time, and the producer is still trying to send "
            f"them{last_failure}"
        )
        error.__cause__ = failure
        return error

    def _begin_closing(self, deadline: float) -> None:
        self._closed = True
        _producers.discard(self)
        _close_accumulator(self._accumulator)
        self._thread.post(partial(self._sender.close, deadline))

    def _close(self, timeout: float | None) -> None:
        if self._forked:
            return
        seconds = self._config.delivery_timeout_ms / 1000 if timeout is None else timeout
        deadline = time.monotonic() + seconds
        self._close_transaction(deadline)
        self._begin_closing(deadline)
        if not self._thread.started:
            self._client.close()
            return
        last = deadline + _GRACE
        ended = self._thread.join(last - time.monotonic())
        if self._thread.is_current():
            return
        for worker in self._sender.workers() if ended else ():
            ended = worker.join(last - time.monotonic()) and ended
        if not ended:
            raise KafkaTimeoutError(
                "the producer's threads did not end in time; perhaps an on_delivery callback is still running"
            )

    def _abandon(self) -> None:
        """Make every call raise ForkError after a fork, in the child process, which has no sender.

        The parent process sends the records that the producer has accepted.
        """
        self._forked = self._closed = True
        self._accumulator.abandon(
            ForkError(
                "this producer was created before a fork and belongs to the parent process; "
                "create a new one in the child process"
            )
        )


def _close_accumulator(accumulator: RecordAccumulator) -> None:
    accumulator.close(ClosedError("this producer has been closed; create a new Producer"))
    accumulator.seal_open_batches()


def _end(accumulator: RecordAccumulator, sender: Sender, deadline: float) -> None:
    """End a producer to which the program no longer refers. The sender lock must be held."""
    _close_accumulator(accumulator)
    sender.close(deadline)


_producers: "weakref.WeakSet[Producer]" = weakref.WeakSet()
_ending: "weakref.WeakSet[SenderThread]" = weakref.WeakSet()
"""The threads of the producers to which the program no longer refers. A thread is in this set until it
ends."""


def _abandon_all() -> None:
    for producer in list(_producers):
        producer._abandon()
    _producers.clear()
    _ending.clear()


def _close_all() -> None:
    """At the end of the program, deliver the records of all producers that the user has not closed.

    Then warn of each producer that was left open. The warnings come last, because a warning raises an
    exception if Python treats warnings as errors.
    """
    left_open = {producer: repr(producer) for producer in list(_producers)}
    deadline = time.monotonic() + UNWIND_TIMEOUT
    for producer in left_open:
        producer._close_transaction(deadline)
        producer._begin_closing(deadline)
    for producer, name in left_open.items():
        try:
            producer.close(max(0.0, deadline - time.monotonic()))
        except Exception as error:
            log.warning("at the end of the program, %s could not be closed properly: %s", name, error)
    for thread in list(_ending):
        thread.join(deadline - time.monotonic())
    for producer, name in left_open.items():
        warnings.warn(f"{name} was never closed", ResourceWarning, source=producer, stacklevel=1)


os.register_at_fork(after_in_child=_abandon_all)

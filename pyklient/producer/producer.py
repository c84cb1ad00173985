"""The Producer: what users hold."""

import atexit
import logging
import os
import random
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, NoReturn, Self, Unpack

from pyklient import argument_checks
from pyklient.config import DEFAULT_SERVERS, ProducerConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.config.keyword_types import ProducerOptions
from pyklient.errors import ClosedError, ConfigurationError, ForkError, KafkaError, KafkaTimeoutError
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient
from pyklient.producer.accumulate.accumulator import Clocks, Limits, RecordAccumulator
from pyklient.producer.accumulate.partitioner import StickyPartitioner, as_partitioner
from pyklient.producer.accumulate.record_checks import RecordEncoder
from pyklient.producer.deliver.sender import Sender
from pyklient.producer.send_arrow import send_arrow
from pyklient.producer.send_many import BulkDelivery, send_many
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.topic_metadata import TopicMetadata
from pyklient.protocol.records.kernel import Batch, Delivery
from pyklient.serialization import as_encoder

__all__ = ["Producer"]

log = logging.getLogger("pyklient.producer")

_GRACE: Final = 5.0
"""What ending threads and connections may take on top of a time-out."""

_UNWIND_TIMEOUT: Final = 10.0
"""How long a ``with`` block that an exception leaves, or the end of the program, goes on delivering."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Producer:
    """Sends records. One per process is usual; safe to use from several threads.

    Records are gathered in batches per partition and sent by a thread of its own. With the defaults each is
    stored once, in order, by all in-sync replicas, or its Delivery says why not (``acks="all"``, idempotent).
    Options are those of ``ProducerConfig``; nothing is opened before the first ``send``.

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
                "%s turns idempotence off: a retry may store a record twice or out of order. Say "
                "enable_idempotence=False if that is meant",
                config.loses_idempotence,
            )
        self._config = config
        self._client = NetworkClient(config)
        self._thread = SenderThread(f"pyklient-producer {config.client_id}")
        self._accumulator, self._sender = _assemble(config, self._client, self._thread)
        self._closed = False
        self._forked = False
        if type(self).send is Producer.send:
            # No Python frame between the caller and the kernel.
            self.__dict__["send"] = self._accumulator.appender.send
        _producers.add(self)
        # What is registered last runs first: a broker in this process that was started before still serves.
        atexit.unregister(_close_all)
        atexit.register(_close_all)

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
        """Send one record; returns at once with its Delivery, which need not be kept.

        *value* and *key* are bytes or None, or what ``value_encoder`` and ``key_encoder`` take. The record
        goes to *partition* if given, else where its key belongs (as Java's client chooses, or the
        ``partitioner``), else with others without a key. *timestamp_ms* counts from 1970; None is now.
        *headers* are (name, value) pairs; a value may be None.

        ``on_delivery(delivery)`` is called once the outcome is known, on a thread of the producer's, one at
        a time. What it raises is logged. A ``send`` from there does not wait: it may use the memory of the
        batch that it is told of, and raises BufferFullError beyond that.

        Waits up to ``max_block_ms`` where ``buffer_memory`` is full, then raises BufferFullError, and for
        the first record of a topic until its leader is found, then raises what is missing: BrokerError (no
        such topic, no leader, not allowed), BrokerConnectionError or KafkaTimeoutError (nobody can be
        reached). Raises TypeError and ConfigurationError for what no record can be made of,
        MessageTooLargeError above ``max_request_size``, ClosedError after ``close``, ForkError in the child
        of a fork.
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
        """Send a record for each of *values*, as so many calls of ``send`` would: cheaper than those where
        there are values alone, dearer with keys, headers or timestamps.

        *keys*, *headers* and *timestamps_ms* have one item for each value; *partition* is for all. Waits
        for memory as often as it has to, up to ``max_block_ms`` each time. If one of the iterables raises,
        or a record cannot be sent, that is raised, and what went before stands: a note of the exception
        says how much that is.
        """
        argument_checks.several(values, "values")
        for name, column in (("keys", keys), ("headers", headers), ("timestamps_ms", timestamps_ms)):
            if column is not None:
                argument_checks.several(column, name)
        argument_checks.text(topic, "topic")
        appender = self._accumulator.appender
        return send_many(appender, self.send, topic, values, keys, headers, partition, timestamps_ms)

    def send_arrow(self, topic: str, data: Any, *, partition: int | None = None) -> BulkDelivery:
        """Send a record for each row of Arrow *data*, as ``send_many`` would, at a fraction of its price: no
        Python object is made of a row. Needs pyarrow (the extra ``arrow``; ModuleNotFoundError without it).

        *data* is a pyarrow Table, RecordBatch or RecordBatchReader, or anything with ``__arrow_c_stream__``
        or ``__arrow_c_array__``, such as a data frame. Its columns go by name: ``value`` (binary or string),
        and if wanted ``key`` (the same), ``partition`` (integers), ``timestamp`` (a timestamp, or integers:
        milliseconds since 1970) and ``headers`` (``list<struct<key: string, value: binary>>``). Null stands
        for none, as None does in ``send``. *partition* is for all rows.

        Raises ConfigurationError and TypeError for other columns, types and data, and where the producer
        has encoders, before anything is sent. A row that cannot be sent raises what ``send`` raises, and
        what went before stands: a note of the exception says how much that is.
        """
        if self._config.key_encoder is not None or self._config.value_encoder is not None:
            raise ConfigurationError(
                "send_arrow sends the bytes of columns as they are, and this producer has a key_encoder or a "
                "value_encoder: use one without"
            )
        return send_arrow(self._accumulator.appender, self.send, topic, data, partition)

    def flush(self, timeout: float | None = None) -> None:
        """Send what waits, and wait until everything sent so far has been confirmed or has failed, and
        ``on_delivery`` has been called for it.

        Raises KafkaTimeoutError, naming the last failure, after *timeout* seconds (None: it takes
        ``delivery_timeout_ms`` at most), and DeliveryError for records that have failed, now or since the
        last report, and whose failure no callback, ``result`` or ``exception`` has shown.
        """
        wait = None if timeout is None else argument_checks.seconds(timeout, "timeout")
        self._accumulator.raise_refusal()
        self._flush(None if wait is None else time.monotonic() + wait)
        error = self._accumulator.tracker.report()
        if error is not None:
            raise error

    def close(self, timeout: float | None = None) -> None:
        """Flush, and end: threads, connections. May be called again.

        After *timeout* seconds (None: it takes ``delivery_timeout_ms`` at most) what is not confirmed
        fails with ClosedError; 0 gives it no time at all. Records of a topic that has been deleted fail
        sooner, with a BrokerError, once the brokers have said for 5 seconds that it does not exist. Raises
        as ``flush`` does, when all is closed.
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
            self.close(_UNWIND_TIMEOUT)
        except KafkaError as failure:
            log.warning("while the block was left by %r: %s", error, failure)

    def __repr__(self) -> str:
        state = ", closed" if self._closed else ""
        return f"<Producer to {self._config.bootstrap_servers!r}{state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a Producer cannot be pickled: it holds connections and threads. Make it where it is used, e.g. "
            "once in each process, from the same options"
        )

    def __del__(self) -> None:
        if getattr(self, "_closed", True) or not self._thread.started:
            return
        name = repr(self)
        # The garbage collector may run in any thread, whatever lock that holds: no more than a message.
        self._closed = True
        accumulator, deadline = self._accumulator, time.monotonic() + _UNWIND_TIMEOUT
        self._thread.post(partial(_end, accumulator, self._sender, deadline))
        warnings.warn(f"{name} was never closed", ResourceWarning, source=self, stacklevel=2)

    def _flush(self, deadline: float | None) -> None:
        batches = self._accumulator.mark()
        self._thread.post(self._sender.flush)
        for batch in batches:
            left = None if deadline is None else deadline - time.monotonic()
            if not self._accumulator.tracker.wait(batch, left):
                raise self._not_in_time([batch for batch in batches if not batch.done])
        if not self._thread.catch_up(None if deadline is None else deadline - time.monotonic()):
            raise KafkaTimeoutError(
                "all records are confirmed, but on_delivery is still being called for some"
            )

    def _not_in_time(self, batches: list[Batch]) -> KafkaTimeoutError:
        count = sum(batch.count for batch in batches)
        text = (
            "1 record was not confirmed in time; it is still being sent"
            if count == 1
            else f"{count:,} records were not confirmed in time; they are still being sent"
        )
        trouble = next(filter(None, map(self._sender.trouble, batches)), None)
        error = KafkaTimeoutError(text if trouble is None else f"{text}; the last failure: {trouble}")
        error.__cause__ = trouble
        return error

    def _begin_closing(self, deadline: float) -> None:
        self._closed = True
        _producers.discard(self)
        self._accumulator.refuse(_closed())
        self._accumulator.mark()
        self._thread.post(partial(self._sender.close, deadline))

    def _close(self, timeout: float | None) -> None:
        if self._forked:
            return
        patience = self._config.delivery_timeout_ms / 1000 if timeout is None else timeout
        deadline = time.monotonic() + patience
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
                "the producer's threads have not ended in time; does an on_delivery callback take that long?"
            )

    def _abandon(self) -> None:
        """In the child of a fork: there is no sender here, and what it was given is the parent's to send."""
        self._forked = self._closed = True
        self._accumulator.abandon(
            ForkError(
                "this producer was made before a fork and belongs to the parent process; "
                "make a new one in the child"
            )
        )


def _assemble(
    config: ProducerConfig, client: NetworkClient, thread: SenderThread
) -> tuple[RecordAccumulator, Sender]:
    """The parts of a producer. None of them holds the Producer itself, so that one which nobody holds any
    more can be told from one in use."""
    backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)

    def look_up(topic: str) -> None:
        thread.post(lambda: sender.want_metadata(topic))

    accumulator = RecordAccumulator(
        Limits(
            batch_size=config.batch_size,
            buffer_memory=config.buffer_memory,
            max_request_size=config.max_request_size,
            max_block=config.max_block_ms / 1000,
            linger=config.linger_ms / 1000,
        ),
        Clocks(time.time_ns, time.monotonic),
        RecordEncoder(as_encoder(config.key_encoder), as_encoder(config.value_encoder), _wall_ms),
        as_partitioner(config.partitioner),
        StickyPartitioner(random.Random()),
        TopicMetadata(client, backoff, look_up),
        start=lambda: thread.start(sender),
        wake=thread.tell,
        is_own_thread=thread.is_current,
    )
    sender = Sender(accumulator, client, config, thread)
    return accumulator, sender


def _closed() -> ClosedError:
    return ClosedError("this producer has been closed")


def _end(accumulator: RecordAccumulator, sender: Sender, deadline: float) -> None:
    """In the sender's turn: the end of a producer that nobody holds any more."""
    accumulator.refuse(_closed())
    accumulator.mark()
    sender.close(deadline)


_producers: "weakref.WeakSet[Producer]" = weakref.WeakSet()


def _abandon_all() -> None:
    for producer in list(_producers):
        producer._abandon()
    _producers.clear()


def _close_all() -> None:
    """At exit: deliver what the producers left open still have. Warn only when all of that is done: with
    warnings as errors, the first one raises."""
    left_open = {producer: repr(producer) for producer in list(_producers)}
    deadline = time.monotonic() + _UNWIND_TIMEOUT
    for producer in left_open:
        producer._begin_closing(deadline)
    for producer, name in left_open.items():
        try:
            producer.close(max(0.0, deadline - time.monotonic()))
        except Exception as error:
            log.warning("%s, at exit: %s", name, error)
    for producer, name in left_open.items():
        warnings.warn(f"{name} was never closed", ResourceWarning, source=producer, stacklevel=1)


os.register_at_fork(after_in_child=_abandon_all)

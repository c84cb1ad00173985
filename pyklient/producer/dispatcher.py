"""What is under way: the partitions' queues, the brokers' brokers, and what each answer means for them.

Belongs to the sender, whose thread makes every call here.
"""

import logging
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

from pyklient.config import ProducerConfig
from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    broker_error,
    error_facts,
)
from pyklient.model import TopicPartition
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient
from pyklient.producer.accumulator import RecordAccumulator
from pyklient.producer.batch import ProducerBatch, seal
from pyklient.producer.broker_queue import BrokerQueue, InFlightRequest
from pyklient.producer.idempotence import Sequences
from pyklient.producer.partition_queue import PartitionQueue
from pyklient.producer.responses import Action, action_for, is_certainly_not_stored
from pyklient.producer.router import Router
from pyklient.producer.threads import Alarmed, SenderThread
from pyklient.protocol.messages import ProduceResponse
from pyklient.protocol.records import Compression
from pyklient.protocol.records.kernel import Batch, Delivery

__all__ = ["Dispatcher"]

log = logging.getLogger("pyklient.producer")

_NEVER: Final = float("inf")

PartitionResponse: TypeAlias = ProduceResponse.TopicProduceResponse.PartitionProduceResponse


class Dispatcher:
    """Decides what is sent where, and what becomes of it."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        config: ProducerConfig,
        sender: SenderThread,
    ) -> None:
        self.alarm = _NEVER
        self.router = Router(accumulator.appender, client, config, sender, self)
        self._accumulator = accumulator
        self._client = client
        self._sender = sender
        self._config = config
        self._codec = Compression.of(config.compression_type)
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._linger = config.linger_ms / 1000
        self._patience = config.delivery_timeout_ms / 1000
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._closing = False
        self._close_at = _NEVER

    # What the sender calls

    def has_news(self) -> bool:
        """See Work."""
        return bool(self._accumulator.begun or self._accumulator.filled)

    def ring(self, target: Alarmed, now: float) -> None:
        """See Work."""
        if isinstance(target, PartitionQueue):
            self.look(target)
        else:
            self.router.ring(target, now)

    def step(self) -> bool:
        """See Work."""
        self._take_new_batches()
        self.router.send()
        if not self._closing:
            return True
        return bool(self._accumulator.unfinished()) and time.monotonic() < self._close_at

    def end(self, crash: BaseException | None) -> None:
        """See Work."""
        failure: KafkaError = ClosedError("the producer was closed before these records were confirmed")
        if crash is not None:
            failure = KafkaError(f"the sender's thread has failed: {crash!r}")
            failure.__cause__ = crash
            self._accumulator.refuse(failure)
        else:
            self._take_new_batches()
            for queue in self._queues.values():
                self.fail_all(queue, failure)
        for gathered in self._accumulator.unfinished():
            self._accumulator.appender.take(gathered)
            callbacks = gathered.settle_rest(failure)
            self._accumulator.finished(gathered, callbacks, _run)
        for worker in self.router.workers():
            worker.stop()
        self._client.close()

    def flush(self) -> None:
        """Batches have been closed by ``mark``: see to them."""
        self._take_new_batches()

    def close(self, deadline: float) -> None:
        """Deliver what there is until *deadline*, and end."""
        self._closing, self._close_at = True, deadline
        self._sender.set_alarm(self, deadline)
        self.flush()

    def _take_new_batches(self) -> None:
        """Take note of batches that users' threads have begun or filled."""
        begun, filled = self._accumulator.begun, self._accumulator.filled
        while begun:
            gathered = begun.popleft()
            queue = self._queue_of(gathered)
            queue.add(gathered)
            self.look(queue)
        while filled:
            self.look(self._queue_of(filled.popleft()))

    # What the router and its brokers call

    def queues(self) -> Iterable[PartitionQueue]:
        """See Depot."""
        return self._queues.values()

    def post(self, item: Callable[[], None]) -> None:
        """See Counter."""
        self._sender.post(item)

    def is_misplaced(self, queue: PartitionQueue, node_id: int) -> bool:
        """See Counter."""
        return self.router.is_misplaced(queue, node_id)

    def connected(self, broker: BrokerQueue, failure: KafkaError | None) -> None:
        """See Counter."""
        self.router.connected(broker, failure)

    def look(self, queue: PartitionQueue) -> None:
        """See to *queue*: fail what is too old, put it in line if it has something to send."""
        now = time.monotonic()
        self._expire(queue, now)
        if not queue.queued and queue.ready(now):
            self.router.route(queue, now)
        self._sender.set_alarm(queue, queue.next_look(now))

    def fail_all(self, queue: PartitionQueue, error: KafkaError) -> None:
        """See Depot."""
        batches, unsealed = queue.expire(_NEVER)
        for batch in batches:
            self._settle(batch.gathered, batch.first, batch.stop, -1, -1, error)
        for gathered in unsealed:
            self._accumulator.appender.take(gathered)
            self._settle(gathered, 0, gathered.count, -1, -1, error)

    def refused(self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError) -> None:
        """See Counter."""
        self._refuse(queue, batch, error, in_doubt=False)

    def unsent(self, broker: BrokerQueue, request: InFlightRequest, error: KafkaError) -> None:
        """See Counter."""
        self.router.has_room(broker)
        broker.lost_connection(request)
        self.router.unreachable(broker, error)
        for queue, batch in request.batches.values():
            self._failed(queue, batch, error, in_doubt=False)

    def answered(self, broker: BrokerQueue, request: InFlightRequest, answer: "Future[Any]") -> None:
        """See Counter."""
        self.router.has_room(broker)
        error = answer.exception()
        if error is not None:
            failure = error if isinstance(error, KafkaError) else KafkaError(f"{error!r}")
            broker.lost_connection(request)
            self.router.want_metadata()
            for queue, batch in request.batches.values():
                self._failed(queue, batch, failure, in_doubt=True)
        elif (response := answer.result()) is None:
            for queue, batch in request.batches.values():
                self._stored(queue, batch, -1, -1)
        else:
            self._sort_out(broker, request, response)

    # Answers

    def _sort_out(self, broker: BrokerQueue, request: InFlightRequest, response: ProduceResponse) -> None:
        if response.throttle_time_ms > 0:
            broker.rest_until = time.monotonic() + response.throttle_time_ms / 1000
        missing = dict(request.batches)
        for topic in response.responses:
            for one in topic.partition_responses:
                found = missing.pop((topic.name, one.index), None)
                if found is not None:
                    self._apply(*found, one)
        for queue, batch in missing.values():
            error = BrokerConnectionError(f"broker {broker.node_id} left {_name(queue)} out of its answer")
            self._failed(queue, batch, error, in_doubt=True)

    def _apply(self, queue: PartitionQueue, batch: ProducerBatch, one: PartitionResponse) -> None:
        """What the broker says of one batch."""
        code = one.error_code
        action = action_for(code, idempotent=batch.idempotent)
        if action is Action.STORED:
            self._stored(queue, batch, one.base_offset if not code else -1, one.log_append_time_ms)
            return
        error: KafkaError = broker_error(code, _context(queue, one))
        if action is Action.TOO_LARGE and batch.count == 1:
            error = MessageTooLargeError(
                f"{_name(queue)}: the broker refused a record of {batch.size:,} bytes; raise "
                f"max.message.bytes of the topic, or message.max.bytes of the broker ({error})"
            )
        if error_facts(code).refresh_metadata:
            self.router.want_metadata()
        in_doubt = not is_certainly_not_stored(code)
        if action is Action.NO_PRODUCER_IDS and not self._config.enable_idempotence:
            log.info("%s: no idempotence, because its record format is too old", queue.topic)
            queue.without_idempotence()
            self._again(queue, batch, error, in_doubt=False)
        elif action is Action.OUT_OF_SEQUENCE:
            log.info("%s: %s", _name(queue), error)
            if self._may_go_again(batch):
                queue.out_of_sequence(batch, error, rest_until=self._rest(batch))
                self.look(queue)
            else:
                self._refuse(queue, batch, error, in_doubt=False)
        elif action is Action.TOO_LARGE and self._may_be_split(batch):
            self._accumulator.appender.shrink(
                queue.topic, batch.gathered.size * batch.count // batch.gathered.count // 2
            )
            queue.split(batch)
            self.look(queue)
        elif action is Action.RETRY:
            self._failed(queue, batch, error, in_doubt=in_doubt)
        else:
            self._refuse(queue, batch, error, in_doubt=in_doubt)

    def _stored(
        self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int, log_append_time_ms: int
    ) -> None:
        queue.stored(batch)
        queue.trouble = None
        if batch.attempts > 1 and log_append_time_ms == batch.timestamps[1]:
            # Of a batch that it has already, Kafka gives the newest timestamp, whoever made it.
            log_append_time_ms = -1
        if not batch.expired:
            self._settle(batch.gathered, batch.first, batch.stop, base_offset, log_append_time_ms, None)
        self.look(queue)

    def _failed(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool
    ) -> None:
        """It may go again, if its attempts and the error allow that."""
        # The client itself closes a connection that was idle or whose session is over: the next one serves.
        passes = error.retriable or isinstance(error, ClosedError)
        if not passes or not self._may_go_again(batch):
            self._refuse(queue, batch, error, in_doubt=in_doubt)
        else:
            self._again(queue, batch, error, in_doubt=in_doubt)

    def _again(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool
    ) -> None:
        log.debug("%s: %d records go again: %s", _name(queue), batch.count, error)
        queue.failed(batch, error, in_doubt=in_doubt, rest_until=self._rest(batch))
        self.look(queue)

    def _refuse(
        self, queue: PartitionQueue, batch: ProducerBatch, error: KafkaError, *, in_doubt: bool
    ) -> None:
        """It has failed for good."""
        batch.in_doubt |= in_doubt
        queue.lost(batch)
        if not batch.expired:
            self._settle(batch.gathered, batch.first, batch.stop, -1, -1, error)
        self.look(queue)

    def _may_be_split(self, batch: ProducerBatch) -> bool:
        # If it has been stored after all, the broker would not know its halves again.
        doubtful = batch.in_doubt and batch.idempotent
        return batch.count > 1 and not batch.expired and not doubtful

    def _may_go_again(self, batch: ProducerBatch) -> bool:
        return batch.attempts <= self._config.retries

    def _rest(self, batch: ProducerBatch) -> float:
        return time.monotonic() + self._backoff.pause(batch.attempts)

    # Partitions

    def _queue_of(self, gathered: Batch) -> PartitionQueue:
        place = (gathered.topic, gathered.partition)
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = PartitionQueue(
                TopicPartition(*place),
                Sequences() if self.router.idempotent else None,
                linger=self._linger,
                patience=self._patience,
                seal=self._seal,
            )
        return queue

    def _seal(self, gathered: Batch) -> ProducerBatch:
        self._accumulator.appender.take(gathered)
        before = gathered.size
        batch = seal(gathered, self._codec)
        if not gathered.count:
            self._settle(gathered, 0, 0, -1, -1, None)
        elif self._codec:
            self._accumulator.shrunk(gathered, before - len(batch.payload))
        return batch

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        batches, unsealed = queue.expire(now)
        for batch in batches:
            error = self._too_late(queue, batch.count, batch.failure)
            self._settle(batch.gathered, batch.first, batch.stop, -1, -1, error)
        for gathered in unsealed:
            self._accumulator.appender.take(gathered)
            self._settle(gathered, 0, gathered.count, -1, -1, self._too_late(queue, gathered.count, None))

    def _too_late(self, queue: PartitionQueue, count: int, failure: KafkaError | None) -> KafkaError:
        reason = failure or queue.trouble
        error = KafkaTimeoutError(
            f"{_name(queue)}: {count:,} records were not confirmed within "
            f"delivery_timeout_ms={self._config.delivery_timeout_ms}; "
            + ("the broker has not answered" if reason is None else f"the last failure: {reason}")
        )
        error.__cause__ = reason
        return error

    def _settle(
        self,
        gathered: Batch,
        first: int,
        stop: int,
        base_offset: int,
        timestamp_ms: int,
        error: KafkaError | None,
    ) -> None:
        callbacks = gathered.settle(first, stop, base_offset, timestamp_ms, error)
        if callbacks is not None:
            self._accumulator.finished(gathered, callbacks, _run)


def _run(delivery: Delivery, callback: Callable[[Delivery], object]) -> None:
    try:
        callback(delivery)
    except BaseException:
        log.exception("a callback for %r failed", delivery)


def _name(queue: PartitionQueue) -> str:
    return str(queue.at)


def _context(queue: PartitionQueue, one: PartitionResponse) -> str:
    """Where an answer belongs, with what the broker says beside its error code (KIP-467)."""
    said = [one.error_message] if one.error_message else []
    said += [
        f"record {item.batch_index} of the batch: {item.batch_index_error_message or 'refused'}"
        for item in one.record_errors[:3]
    ]
    return ": ".join((_name(queue), *said))

"""What is under way: the partitions' lanes, the brokers' outboxes, and what each answer means for them.

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
from pyklient.producer.accumulator import Accumulator
from pyklient.producer.batch import Parcel, seal
from pyklient.producer.broker_queue import Outbox, Shipment
from pyklient.producer.idempotence import Sequences
from pyklient.producer.partition_queue import Lane
from pyklient.producer.responses import Verdict, is_certainly_not_stored, judge
from pyklient.producer.router import Router
from pyklient.producer.threads import Alarmed, Sender
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
        self, accumulator: Accumulator, client: NetworkClient, config: ProducerConfig, sender: Sender
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
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._closing = False
        self._close_at = _NEVER

    # What the sender calls

    def has_news(self) -> bool:
        """See Work."""
        return bool(self._accumulator.begun or self._accumulator.filled)

    def ring(self, target: Alarmed, now: float) -> None:
        """See Work."""
        if isinstance(target, Lane):
            self.look(target)
        else:
            self.router.ring(target, now)

    def step(self) -> bool:
        """See Work."""
        self._welcome()
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
            self._welcome()
            for lane in self._lanes.values():
                self.give_up(lane, failure)
        for batch in self._accumulator.unfinished():
            self._accumulator.appender.take(batch)
            callbacks = batch.settle_rest(failure)
            self._accumulator.finished(batch, callbacks, _run)
        for courier in self.router.couriers():
            courier.stop()
        self._client.close()

    def flush(self) -> None:
        """Batches have been closed by ``mark``: see to all lanes."""
        self._welcome()
        for lane in self._lanes.values():
            self.look(lane)

    def close(self, deadline: float) -> None:
        """Deliver what there is until *deadline*, and end."""
        self._closing, self._close_at = True, deadline
        self._sender.set_alarm(self, deadline)
        self.flush()

    def _welcome(self) -> None:
        """Take note of batches that users' threads have begun or filled."""
        begun, filled = self._accumulator.begun, self._accumulator.filled
        while begun:
            batch = begun.popleft()
            lane = self._lane(batch)
            lane.add(batch)
            self.look(lane)
        while filled:
            self.look(self._lane(filled.popleft()))

    # What the router and its outboxes call

    def lanes(self) -> Iterable[Lane]:
        """See Depot."""
        return self._lanes.values()

    def post(self, item: Callable[[], None]) -> None:
        """See Counter."""
        self._sender.post(item)

    def is_misplaced(self, lane: Lane, node_id: int) -> bool:
        """See Counter."""
        return self.router.is_misplaced(lane, node_id)

    def connected(self, outbox: Outbox, failure: KafkaError | None) -> None:
        """See Counter."""
        self.router.connected(outbox, failure)

    def look(self, lane: Lane) -> None:
        """See to *lane*: fail what is too old, put it in line if it has something to send."""
        now = time.monotonic()
        self._expire(lane, now)
        if not lane.queued and lane.ready(now):
            self.router.route(lane, now)
        self._sender.set_alarm(lane, lane.next_look(now))

    def give_up(self, lane: Lane, error: KafkaError) -> None:
        """See Depot."""
        parcels, batches = lane.expire(_NEVER)
        for parcel in parcels:
            self._settle(parcel.batch, parcel.first, parcel.stop, -1, -1, error)
        for batch in batches:
            self._accumulator.appender.take(batch)
            self._settle(batch, 0, batch.count, -1, -1, error)

    def refused(self, lane: Lane, parcel: Parcel, error: KafkaError) -> None:
        """See Counter."""
        self._refuse(lane, parcel, error, in_doubt=False)

    def unsent(self, outbox: Outbox, shipment: Shipment, error: KafkaError) -> None:
        """See Counter."""
        self.router.has_room(outbox)
        outbox.lost_connection(shipment)
        self.router.unreachable(outbox, error)
        for lane, parcel in shipment.parcels.values():
            self._failed(lane, parcel, error, in_doubt=False)

    def answered(self, outbox: Outbox, shipment: Shipment, answer: "Future[Any]") -> None:
        """See Counter."""
        self.router.has_room(outbox)
        error = answer.exception()
        if error is not None:
            failure = error if isinstance(error, KafkaError) else KafkaError(f"{error!r}")
            outbox.lost_connection(shipment)
            self.router.want_metadata()
            for lane, parcel in shipment.parcels.values():
                self._failed(lane, parcel, failure, in_doubt=True)
        elif (response := answer.result()) is None:
            for lane, parcel in shipment.parcels.values():
                self._stored(lane, parcel, -1, -1)
        else:
            self._sort_out(outbox, shipment, response)

    # Answers

    def _sort_out(self, outbox: Outbox, shipment: Shipment, response: ProduceResponse) -> None:
        if response.throttle_time_ms > 0:
            outbox.rest_until = time.monotonic() + response.throttle_time_ms / 1000
        missing = dict(shipment.parcels)
        for topic in response.responses:
            for one in topic.partition_responses:
                found = missing.pop((topic.name, one.index), None)
                if found is not None:
                    self._apply(*found, one)
        for lane, parcel in missing.values():
            error = BrokerConnectionError(f"broker {outbox.node_id} left {_name(lane)} out of its answer")
            self._failed(lane, parcel, error, in_doubt=True)

    def _apply(self, lane: Lane, parcel: Parcel, one: PartitionResponse) -> None:
        """What the broker says of one parcel."""
        code = one.error_code
        verdict = judge(code, idempotent=parcel.idempotent)
        if verdict is Verdict.STORED:
            self._stored(lane, parcel, one.base_offset if not code else -1, one.log_append_time_ms)
            return
        error: KafkaError = broker_error(code, _context(lane, one))
        if verdict is Verdict.TOO_LARGE and parcel.count == 1:
            error = MessageTooLargeError(
                f"{_name(lane)}: the broker refused a record of {parcel.size:,} bytes; raise "
                f"max.message.bytes of the topic, or message.max.bytes of the broker ({error})"
            )
        if error_facts(code).refresh_metadata:
            self.router.want_metadata()
        in_doubt = not is_certainly_not_stored(code)
        if verdict is Verdict.NO_PRODUCER_IDS and not self._config.enable_idempotence:
            log.info("%s: no idempotence, because its record format is too old", lane.topic)
            lane.without_stamps()
            self._again(lane, parcel, error, in_doubt=False)
        elif verdict is Verdict.OUT_OF_SEQUENCE:
            log.info("%s: %s", _name(lane), error)
            if self._may_go_again(parcel):
                lane.out_of_sequence(parcel, error, rest_until=self._rest(parcel))
                self.look(lane)
            else:
                self._refuse(lane, parcel, error, in_doubt=False)
        elif verdict is Verdict.TOO_LARGE and self._may_be_split(parcel):
            self._accumulator.appender.shrink(
                lane.topic, parcel.batch.size * parcel.count // parcel.batch.count // 2
            )
            lane.split(parcel)
            self.look(lane)
        elif verdict is Verdict.AGAIN:
            self._failed(lane, parcel, error, in_doubt=in_doubt)
        else:
            self._refuse(lane, parcel, error, in_doubt=in_doubt)

    def _stored(self, lane: Lane, parcel: Parcel, base_offset: int, log_append_time_ms: int) -> None:
        lane.stored(parcel)
        lane.trouble = None
        if parcel.attempts > 1 and log_append_time_ms == parcel.timestamps[1]:
            # Of a batch that it has already, Kafka gives the newest timestamp, whoever made it.
            log_append_time_ms = -1
        if not parcel.expired:
            self._settle(parcel.batch, parcel.first, parcel.stop, base_offset, log_append_time_ms, None)
        self.look(lane)

    def _failed(self, lane: Lane, parcel: Parcel, error: KafkaError, *, in_doubt: bool) -> None:
        """It may go again, if its attempts and the error allow that."""
        # The client itself closes a connection that was idle or whose session is over: the next one serves.
        passes = error.retriable or isinstance(error, ClosedError)
        if not passes or not self._may_go_again(parcel):
            self._refuse(lane, parcel, error, in_doubt=in_doubt)
        else:
            self._again(lane, parcel, error, in_doubt=in_doubt)

    def _again(self, lane: Lane, parcel: Parcel, error: KafkaError, *, in_doubt: bool) -> None:
        log.debug("%s: %d records go again: %s", _name(lane), parcel.count, error)
        lane.failed(parcel, error, in_doubt=in_doubt, rest_until=self._rest(parcel))
        self.look(lane)

    def _refuse(self, lane: Lane, parcel: Parcel, error: KafkaError, *, in_doubt: bool) -> None:
        """It has failed for good."""
        parcel.in_doubt |= in_doubt
        lane.lost(parcel)
        if not parcel.expired:
            self._settle(parcel.batch, parcel.first, parcel.stop, -1, -1, error)
        self.look(lane)

    def _may_be_split(self, parcel: Parcel) -> bool:
        # If it has been stored after all, the broker would not know its halves again.
        doubtful = parcel.in_doubt and parcel.idempotent
        return parcel.count > 1 and not parcel.expired and not doubtful

    def _may_go_again(self, parcel: Parcel) -> bool:
        return parcel.attempts <= self._config.retries

    def _rest(self, parcel: Parcel) -> float:
        return time.monotonic() + self._backoff.pause(parcel.attempts)

    # Lanes

    def _lane(self, batch: Batch) -> Lane:
        place = (batch.topic, batch.partition)
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = Lane(
                TopicPartition(*place),
                Sequences() if self.router.idempotent else None,
                linger=self._linger,
                patience=self._patience,
                seal=self._seal,
            )
        return lane

    def _seal(self, batch: Batch) -> Parcel:
        self._accumulator.appender.take(batch)
        before = batch.size
        parcel = seal(batch, self._codec)
        if not batch.count:
            self._settle(batch, 0, 0, -1, -1, None)
        elif self._codec:
            self._accumulator.shrunk(batch, before - len(parcel.payload))
        return parcel

    def _expire(self, lane: Lane, now: float) -> None:
        parcels, batches = lane.expire(now)
        for parcel in parcels:
            error = self._too_late(lane, parcel.count, parcel.failure)
            self._settle(parcel.batch, parcel.first, parcel.stop, -1, -1, error)
        for batch in batches:
            self._accumulator.appender.take(batch)
            self._settle(batch, 0, batch.count, -1, -1, self._too_late(lane, batch.count, None))

    def _too_late(self, lane: Lane, count: int, failure: KafkaError | None) -> KafkaError:
        reason = failure or lane.trouble
        error = KafkaTimeoutError(
            f"{_name(lane)}: {count:,} records were not confirmed within "
            f"delivery_timeout_ms={self._config.delivery_timeout_ms}; "
            + ("the broker has not answered" if reason is None else f"the last failure: {reason}")
        )
        error.__cause__ = reason
        return error

    def _settle(
        self,
        batch: Batch,
        first: int,
        stop: int,
        base_offset: int,
        timestamp_ms: int,
        error: KafkaError | None,
    ) -> None:
        callbacks = batch.settle(first, stop, base_offset, timestamp_ms, error)
        if callbacks is not None:
            self._accumulator.finished(batch, callbacks, _run)


def _run(delivery: Delivery, callback: Callable[[Delivery], object]) -> None:
    try:
        callback(delivery)
    except BaseException:
        log.exception("a callback for %r failed", delivery)


def _name(lane: Lane) -> str:
    return str(lane.at)


def _context(lane: Lane, one: PartitionResponse) -> str:
    """Where an answer belongs, with what the broker says beside its error code (KIP-467)."""
    said = [one.error_message] if one.error_message else []
    said += [
        f"record {item.batch_index} of the batch: {item.batch_index_error_message or 'refused'}"
        for item in one.record_errors[:3]
    ]
    return ": ".join((_name(lane), *said))

"""What is under way: the partitions' lanes, the brokers' outboxes, and what each answer means for them.

Belongs to the sender, whose thread makes every call here.
"""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, TypeAlias

from pyklient.config import ProducerConfig
from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    UnsupportedVersionError,
    broker_error,
    error_facts,
)
from pyklient.model import TopicPartition
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient
from pyklient.net.metadata import Metadata
from pyklient.producer.accumulator import Accumulator
from pyklient.producer.courier import Courier
from pyklient.producer.idempotence import Sequences
from pyklient.producer.lane import Lane
from pyklient.producer.outbox import Outbox, Shipment, Terms
from pyklient.producer.parcel import Parcel, seal
from pyklient.producer.sender import Alarmed, Sender
from pyklient.producer.upkeep import ProducerId, Upkeep
from pyklient.producer.verdict import Verdict, is_certainly_not_stored, judge
from pyklient.protocol.messages import ProduceResponse
from pyklient.protocol.records import Compression
from pyklient.protocol.records.kernel import Batch, Delivery

__all__ = ["Dispatcher"]

log = logging.getLogger("pyklient.producer")

_NEVER: Final = float("inf")
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_CLUSTER_AUTHORIZATION_FAILED: Final = 31

PartitionResponse: TypeAlias = ProduceResponse.TopicProduceResponse.PartitionProduceResponse


class Dispatcher:
    """Decides what is sent where, and what becomes of it."""

    def __init__(
        self, accumulator: Accumulator, client: NetworkClient, config: ProducerConfig, sender: Sender
    ) -> None:
        self.alarm = _NEVER
        self.outboxes: dict[int, Outbox] = {}
        self._accumulator = accumulator
        self._client = client
        self._sender = sender
        self._config = config
        self._codec = Compression.of(config.compression_type)
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._linger = config.linger_ms / 1000
        self._patience = config.delivery_timeout_ms / 1000
        self._terms = Terms(
            config.acks_wire,
            config.request_timeout_ms / 1000,
            config.max_in_flight_requests_per_connection,
            config.max_request_size,
        )
        self._lanes: dict[tuple[str, int], Lane] = {}
        self._stranded: set[Lane] = set()
        self._changed: set[Outbox] = set()
        self._closing = False
        self._close_at = _NEVER
        self._idempotent = config.wants_idempotence
        self._producer_id: ProducerId | None = None
        self.upkeep = Upkeep(
            client,
            self._backoff,
            timeout=self._terms.timeout,
            max_age=config.metadata_max_age_ms / 1000,
            topics=accumulator.appender.topics,
            post=sender.post,
            learned=self._learned,
            identified=self._identified,
        )

    # What the sender calls

    def has_news(self) -> bool:
        """See Work."""
        return bool(self._accumulator.begun or self._accumulator.filled)

    def ring(self, target: Alarmed, now: float) -> None:
        """See Work."""
        if isinstance(target, Lane):
            self.look(target)
        elif isinstance(target, Outbox):
            self._changed.add(target)
        elif target is self.upkeep:
            self.upkeep.look(now)

    def step(self) -> bool:
        """See Work."""
        self._welcome()
        while self._changed:
            now = time.monotonic()
            outbox = self._changed.pop()
            outbox.fill(now)
            if outbox.line and outbox.rest_until > now:
                self._sender.set_alarm(outbox, outbox.rest_until)
        self._sender.set_alarm(self.upkeep, self.upkeep.next_look)
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
                self._give_up(lane, failure)
        for batch in self._accumulator.unfinished():
            self._accumulator.appender.take(batch)
            callbacks = batch.settle_rest(failure)
            self._accumulator.finished(batch, callbacks, _run)
        for courier in self.couriers():
            courier.stop()
        self._client.close()

    def couriers(self) -> list[Courier]:
        """Those who run errands: they end when the sender does."""
        return [self.upkeep.courier, *(outbox.courier for outbox in self.outboxes.values())]

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

    # What the outboxes call

    def post(self, item: Callable[[], None]) -> None:
        """See Counter."""
        self._sender.post(item)

    def is_misplaced(self, lane: Lane, node_id: int) -> bool:
        """See Counter."""
        return self._leader(lane) != node_id

    def look(self, lane: Lane) -> None:
        """See to *lane*: fail what is too old, put it in line if it has something to send."""
        now = time.monotonic()
        self._expire(lane, now)
        if not lane.queued and lane.ready(now):
            self._route(lane, now)
        self._sender.set_alarm(lane, lane.next_look(now))

    def connected(self, outbox: Outbox, failure: KafkaError | None) -> None:
        """See Counter."""
        now = time.monotonic()
        if failure is None:
            outbox.failures = 0
        else:
            self._unreachable(outbox, failure, now)
            for lane in list(outbox.line):
                lane.trouble = failure
                if not failure.retriable:
                    self._give_up(lane, failure)
        self._changed.add(outbox)

    def refused(self, lane: Lane, parcel: Parcel, error: KafkaError) -> None:
        """See Counter."""
        self._refuse(lane, parcel, error, in_doubt=False)

    def unsent(self, outbox: Outbox, shipment: Shipment, error: KafkaError) -> None:
        """See Counter."""
        now = time.monotonic()
        outbox.in_flight -= 1
        outbox.lost_connection(shipment)
        self._unreachable(outbox, error, now)
        for lane, parcel in shipment.parcels.values():
            self._failed(lane, parcel, error, in_doubt=False)
        self._changed.add(outbox)

    def answered(self, outbox: Outbox, shipment: Shipment, answer: "Future[Any]") -> None:
        """See Counter."""
        outbox.in_flight -= 1
        error = answer.exception()
        if error is not None:
            failure = error if isinstance(error, KafkaError) else KafkaError(f"{error!r}")
            outbox.lost_connection(shipment)
            self._want_metadata()
            for lane, parcel in shipment.parcels.values():
                self._failed(lane, parcel, failure, in_doubt=True)
        elif (response := answer.result()) is None:
            for lane, parcel in shipment.parcels.values():
                self._stored(lane, parcel, -1, -1)
        else:
            outbox.failures = 0
            self._sort_out(outbox, shipment, response)
        self._changed.add(outbox)

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
            self._want_metadata()
        in_doubt = not is_certainly_not_stored(code)
        if verdict is Verdict.NO_PRODUCER_IDS and not self._config.enable_idempotence:
            log.info("%s: no idempotence, because its record format is too old", lane.topic)
            lane.without_stamps()
            parcel.stamp = None
            self._again(lane, parcel, error, in_doubt=False)
        elif verdict is Verdict.OUT_OF_SEQUENCE:
            log.info("%s: %s", _name(lane), error)
            if self._may_go_again(parcel):
                lane.out_of_sequence(parcel, error, rest_until=self._rest(parcel))
                self.look(lane)
            else:
                self._refuse(lane, parcel, error, in_doubt=False)
        elif verdict is Verdict.TOO_LARGE and parcel.count > 1 and not parcel.expired:
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
        if not parcel.expired:
            self._settle(parcel.batch, parcel.first, parcel.stop, base_offset, log_append_time_ms, None)
        self.look(lane)

    def _failed(self, lane: Lane, parcel: Parcel, error: KafkaError, *, in_doubt: bool) -> None:
        """It may go again, if its attempts and the error allow that."""
        if not error.retriable or not self._may_go_again(parcel):
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
                Sequences() if self._idempotent else None,
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

    def _route(self, lane: Lane, now: float) -> None:
        """Put *lane*, which is ready, in line at its leader's outbox; or wait for what it lacks."""
        leader = self._leader(lane)
        if leader is None:
            lane.trouble = lane.trouble or KafkaTimeoutError("its partition has no leader that is known")
            self._want_metadata()
        if leader is None or not self._has_stamps(lane, now):
            self._stranded.add(lane)
            return
        self._stranded.discard(lane)
        outbox = self.outboxes.get(leader)
        if outbox is None:
            outbox = self.outboxes[leader] = Outbox(leader, self._client, self._terms, self)
        outbox.queue(lane)
        self._changed.add(outbox)

    def _has_stamps(self, lane: Lane, now: float) -> bool:
        """Whether *lane* can stamp its parcels, or need not."""
        sequences = lane.sequences
        if sequences is None or sequences.producer_id >= 0:
            return True
        if self._producer_id is not None and self._producer_id[0] == sequences.used_up:
            self._producer_id = None
        if self._producer_id is None:
            self.upkeep.want_producer_id(now)
            return False
        sequences.adopt(*self._producer_id)
        return True

    def _leader(self, lane: Lane) -> int | None:
        node = self._client.metadata.leader(lane.at)
        return None if node is None else node.id

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

    def _give_up(self, lane: Lane, error: KafkaError) -> None:
        parcels, batches = lane.expire(_NEVER)
        for parcel in parcels:
            self._settle(parcel.batch, parcel.first, parcel.stop, -1, -1, error)
        for batch in batches:
            self._accumulator.appender.take(batch)
            self._settle(batch, 0, batch.count, -1, -1, error)

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

    # Brokers, metadata, producer id

    def _unreachable(self, outbox: Outbox, failure: KafkaError, now: float) -> None:
        outbox.failures += 1
        outbox.rest_until = now + self._backoff.pause(outbox.failures)
        log.debug("broker %d: %s", outbox.node_id, failure)
        self._want_metadata()

    def _want_metadata(self) -> None:
        self.upkeep.want_metadata(time.monotonic())

    def _learned(self, metadata: Metadata | None, failure: KafkaError | None) -> None:
        """A question for metadata has been answered, or has failed."""
        self.upkeep.refreshed(metadata, time.monotonic())
        appender = self._accumulator.appender
        for name, topic in metadata.topics.items() if metadata is not None else ():
            if topic.error == _UNKNOWN_TOPIC_OR_PARTITION:
                appender.forget(name)
            elif topic.partitions and appender.partition_count(name) != len(topic.partitions):
                appender.know(name, len(topic.partitions))
        for outbox in self.outboxes.values():
            outbox.leave_misplaced()
            self._changed.add(outbox)
        self._look_at_stranded(failure)

    def _identified(self, producer_id: ProducerId | None, failure: KafkaError | None) -> None:
        """A question for a producer id has been answered, or has failed."""
        self._producer_id = producer_id
        if failure is not None and failure.retriable:
            self.upkeep.id_failed(time.monotonic())
            self._look_at_stranded(failure)
            return
        self.upkeep.id_settled()
        if failure is not None and self._can_do_without(failure):
            log.info("no idempotence: %s", failure)
            self._idempotent = False
            for lane in self._lanes.values():
                lane.without_stamps()
        elif failure is not None:
            for lane in self._stranded:
                self._give_up(lane, failure)
        self._look_at_stranded(None)

    def _can_do_without(self, failure: KafkaError) -> bool:
        """Whether idempotence is to be left off because of *failure*: it was not asked for by name, and the
        broker does not have it, or does not allow it."""
        return not self._config.enable_idempotence and (
            isinstance(failure, UnsupportedVersionError)
            or getattr(failure, "code", 0) == _CLUSTER_AUTHORIZATION_FAILED
        )

    def _look_at_stranded(self, failure: KafkaError | None) -> None:
        stranded, self._stranded = self._stranded, set()
        for lane in stranded:
            lane.trouble = failure or lane.trouble
            self.look(lane)


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

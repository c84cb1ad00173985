"""What goes to one broker: lanes in line, requests on the way, and how the way is found.

Everything here runs on the sender's thread, but for what its courier does: connecting and writing.
"""

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from pyklient.errors import KafkaError, UnsupportedVersionError
from pyklient.net.client import NetworkClient, Purpose
from pyklient.producer.batch import Parcel, format_for
from pyklient.producer.courier import Courier
from pyklient.producer.metadata import MAX_PRODUCE_VERSION
from pyklient.producer.partition_queue import Lane
from pyklient.protocol.messages import ProduceRequest, ProduceResponse
from pyklient.protocol.records.layout import Buffer

__all__ = ["Counter", "Outbox", "Shipment", "Terms"]

_FITS_A_SOCKET: Final = 16 * 1024
"""Bytes that any socket's empty send buffer takes at once."""

PartitionData = ProduceRequest.PartitionProduceData
TopicData = ProduceRequest.TopicProduceData


class Terms(NamedTuple):
    """On which terms requests go out: options, times in seconds."""

    acks: int
    timeout: float
    max_in_flight: int
    max_request_size: int


class Shipment(NamedTuple):
    """One request: its parcels by topic and partition, and the state of the outbox that it was made for."""

    parcels: dict[tuple[str, int], tuple[Lane, Parcel]]
    message: ProduceRequest
    version: int
    connection_number: int


class Counter(Protocol):
    """The sender, as an outbox sees it."""

    def post(self, item: Callable[[], None]) -> None:
        """Have *item* called on the sender's thread; from any thread."""

    def is_misplaced(self, lane: Lane, node_id: int) -> bool:
        """Whether *lane* is led by another broker, or by none at the moment."""

    def look(self, lane: Lane) -> None:
        """Something about *lane* has changed."""

    def connected(self, outbox: "Outbox", failure: KafkaError | None) -> None:
        """A broker has been reached, or has not."""

    def refused(self, lane: Lane, parcel: Parcel, error: KafkaError) -> None:
        """*parcel* cannot be sent to this broker at all."""

    def unsent(self, outbox: "Outbox", shipment: Shipment, error: KafkaError) -> None:
        """Nothing of *shipment* has reached the broker."""

    def answered(self, outbox: "Outbox", shipment: Shipment, answer: "Future[Any]") -> None:
        """*shipment* has been answered, or will not be."""


class Outbox:
    """The way to one broker."""

    def __init__(self, node_id: int, client: NetworkClient, terms: Terms, counter: Counter) -> None:
        self.node_id = node_id
        self.line: deque[Lane] = deque()
        """Lanes that have something to send."""
        self.in_flight = 0
        self.alarm = float("inf")
        """When the sender fills it next: the sender's."""
        self.failures = 0
        """Attempts in a row to reach the broker that have failed."""
        self.rest_until = 0.0
        """Nothing is sent before: the broker wants fewer requests, or could not be reached."""
        self.courier = Courier(f"pyklient-producer-{node_id}")
        self._client = client
        self._terms = terms
        self._counter = counter
        self._version: int | None = None
        self._connecting = False
        self._connection_number = 0
        # The courier's: what has failed on its way fails what stands behind it too, so that order is kept.
        self._broken: tuple[int, KafkaError] | None = None

    def queue(self, lane: Lane) -> None:
        """*lane* has something to send."""
        lane.queued = True
        self.line.append(lane)

    def fill(self) -> None:
        """Send what may be sent."""
        while self.line and self.in_flight < self._terms.max_in_flight:
            if time.monotonic() < self.rest_until:
                return
            if self._version is None:
                if not self._connecting:
                    self._connecting = True
                    self.courier.run(self._connect)
                return
            shipment = self._load(self._version)
            if shipment is None:
                continue
            self.in_flight += 1
            if self._is_idle() and self._is_small(shipment) and self._is_open():
                # These bytes fit into the socket's buffer: no thread need wait for them, and a single
                # record gets there sooner.
                self._send(shipment)
            else:
                self.courier.run(partial(self._send, shipment))

    def leave_misplaced(self) -> None:
        """Look again at lanes in line whose records go elsewhere by now."""
        for _ in range(len(self.line)):
            lane = self.line[0]
            if self._counter.is_misplaced(lane, self.node_id):
                self._leave(lane)
            else:
                self.line.rotate(-1)

    def lost_connection(self, shipment: Shipment) -> None:
        """*shipment* has found no way: look for another."""
        if shipment.connection_number == self._connection_number:
            self._connection_number += 1
            self._version = None

    def _is_idle(self) -> bool:
        """Whether nothing else is under way. Without answers, nobody knows what has left the buffer."""
        return self.in_flight == 1 and self._terms.acks != 0

    def _is_small(self, shipment: Shipment) -> bool:
        return sum(parcel.size for _, parcel in shipment.parcels.values()) <= _FITS_A_SOCKET

    def _is_open(self) -> bool:
        return self._client.live_connection(self.node_id, Purpose.PRODUCE) is not None

    def _load(self, version: int) -> Shipment | None:
        """A request with the next parcel of as many lanes in line as fit."""
        parcels: dict[tuple[str, int], tuple[Lane, Parcel]] = {}
        topics: dict[str, TopicData] = {}
        size = 0
        for _ in range(len(self.line)):
            lane = self.line[0]
            if self._counter.is_misplaced(lane, self.node_id) or not lane.ready(time.monotonic()):
                self._leave(lane)
                continue
            size += lane.peek_size()
            if parcels and size > self._terms.max_request_size:
                break
            loaded = self._take(lane, version)
            if loaded is not None:
                parcel, buffers = loaded
                parcels[lane.topic, lane.partition] = (lane, parcel)
                topic = topics.setdefault(lane.topic, TopicData(name=lane.topic))
                topic.partition_data.append(PartitionData(index=lane.partition, records=buffers))
            self._leave(lane)
        if not parcels:
            return None
        message = ProduceRequest(
            acks=self._terms.acks,
            timeout_ms=int(self._terms.timeout * 1000),
            topic_data=list(topics.values()),
        )
        return Shipment(parcels, message, version, self._connection_number)

    def _take(self, lane: Lane, version: int) -> tuple[Parcel, list[Buffer]] | None:
        parcel = lane.take()
        if parcel is None:
            return None
        try:
            return parcel, parcel.buffers(format_for(version))
        except KafkaError as error:
            self._counter.refused(lane, parcel, error)
            return None

    def _leave(self, lane: Lane) -> None:
        """Out of the line; it may come back at its end."""
        self.line.popleft()
        lane.queued = False
        self._counter.look(lane)

    # On the courier's thread, most of the time:

    def _connect(self) -> None:
        failure: KafkaError | None = None
        version: int | None = None
        try:
            connection = self._client.connection(self.node_id, Purpose.PRODUCE, self._terms.timeout)
            version = connection.version_of(ProduceRequest, MAX_PRODUCE_VERSION)
        except KafkaError as error:
            failure = error
        self._counter.post(partial(self._connected, version, failure))

    def _send(self, shipment: Shipment) -> None:
        try:
            if self._broken is not None and self._broken[0] == shipment.connection_number:
                raise self._broken[1]
            connection = self._client.connection(self.node_id, Purpose.PRODUCE, self._terms.timeout)
            version = connection.version_of(ProduceRequest, MAX_PRODUCE_VERSION)
            if format_for(version) != format_for(shipment.version):
                raise UnsupportedVersionError(f"broker {self.node_id} has changed its version")
            answer = connection.send(
                shipment.message,
                max_version=MAX_PRODUCE_VERSION,
                timeout=self._terms.timeout,
                expects_reply=self._terms.acks != 0,
            )
        except Exception as error:
            # Whatever it is, the records it happened to must hear of it.
            failure = error if isinstance(error, KafkaError) else KafkaError(f"cannot be sent: {error!r}")
            self._broken = (shipment.connection_number, failure)
            self._counter.post(partial(self._counter.unsent, self, shipment, failure))
            return
        answer.add_done_callback(partial(self._answered, shipment))

    def _answered(self, shipment: Shipment, answer: "Future[ProduceResponse]") -> None:
        self._counter.post(partial(self._counter.answered, self, shipment, answer))

    # On the sender's again:

    def _connected(self, version: int | None, failure: KafkaError | None) -> None:
        self._connecting = False
        self._version = version
        self._counter.connected(self, failure)

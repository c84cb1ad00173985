"""What goes to one broker: partitions in line, requests on the way, and how the way is found.

A BrokerQueue alone changes what it knows of its broker: the connection, the requests in flight, and until
when to leave it alone. Everything here runs in the sender's turn, but for what its worker does, connecting
and writing, and for ``_pass_on``, which the connection calls.
"""

import logging
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from pyklient.errors import KafkaError, UnsupportedVersionError
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient, Purpose
from pyklient.net.connection import Connection, Rest
from pyklient.net.metadata import Metadata
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.produce_responses import Batches, ProduceResponses
from pyklient.producer.deliver.sealed_batch import ProducerBatch, format_for
from pyklient.producer.threads.sender_thread import BlockingWorker
from pyklient.producer.topic_metadata import MAX_PRODUCE_VERSION
from pyklient.protocol.messages import ProduceRequest, ProduceResponse
from pyklient.protocol.records.layout import Buffer

__all__ = ["BrokerQueue", "InFlightRequest", "RequestOptions", "SenderCalls"]

_SMALL: Final = 64 * 1024
"""Bytes that are worth a try without a thread that may wait: of more, a socket seldom takes all."""

log = logging.getLogger("pyklient.producer")

PartitionData: TypeAlias = ProduceRequest.TopicProduceData.PartitionProduceData
TopicData = ProduceRequest.TopicProduceData


class RequestOptions(NamedTuple):
    """How requests go out; times in seconds."""

    acks: int
    timeout: float
    max_in_flight: int
    max_bytes: int
    """Of a request, unless one batch alone is larger."""


class InFlightRequest(NamedTuple):
    """One request, and the number of the connection that it was made for."""

    batches: Batches
    size: int
    """Of the batches, in bytes."""
    message: ProduceRequest
    version: int
    connection_number: int


class SenderCalls(NamedTuple):
    """What a BrokerQueue asks of the sender."""

    post: Callable[[Callable[[], None]], None]
    """Have it called in the sender's turn; from any thread."""
    hand_over: Callable[[Callable[[], None]], None]
    """The same, by a thread that may take the turn itself."""
    leader_of: Callable[[PartitionQueue], int | None]
    look: Callable[[PartitionQueue], None]
    """Something about the partition has changed."""
    can_fill: "Callable[[BrokerQueue], None]"
    """Something about the broker has changed: ``fill`` may have something to do."""
    want_metadata: Callable[[], None]


class BrokerQueue:
    """The way to one broker."""

    def __init__(
        self,
        node_id: int,
        client: NetworkClient,
        options: RequestOptions,
        backoff: Backoff,
        responses: ProduceResponses,
        sender: SenderCalls,
    ) -> None:
        self.node_id = node_id
        self.line: deque[PartitionQueue] = deque()
        """Partitions that have something to send."""
        self.timer = self.alarm = float("inf")
        """When the sender fills it next: the sender's."""
        self.rest_until = 0.0
        """Nothing is sent before: the broker wants fewer requests, or could not be reached."""
        self.worker = BlockingWorker(f"pyklient-producer-{node_id}")
        self._client = client
        self._options = options
        self._timeout_ms = int(options.timeout * 1000)
        self._backoff = backoff
        self._responses = responses
        self._sender = sender
        self._metadata: Metadata | None = None
        """By which the partitions in line are led by this broker."""
        self._in_flight = 0
        self._handed = 0
        """Requests that the worker was given; it counts in ``_done`` those that it is done with."""
        self._done = 0
        self._failures = 0
        """Attempts in a row to reach the broker that have failed."""
        self._version: int | None = None
        self._connecting = False
        self._connection_number = 0
        # The worker's, and the sender's for what is small: what has failed on its way fails what stands
        # behind it too, so that order is kept.
        self._broken: tuple[int, KafkaError] | None = None

    def enqueue(self, queue: PartitionQueue) -> None:
        """*queue* has something to send."""
        queue.queued = True
        self.line.append(queue)

    @property
    def is_full(self) -> bool:
        """Whether it must be answered before it sends more."""
        return self._in_flight >= self._options.max_in_flight

    def fill(self) -> None:
        """Send what may be sent."""
        while self.line and self._in_flight < self._options.max_in_flight:
            if time.monotonic() < self.rest_until:
                return
            if self._version is None:
                if not self._connecting:
                    self._connecting = True
                    self.worker.run(self._connect)
                return
            request = self._load(self._version)
            if request is None:
                continue
            self._in_flight += 1
            left = self._send_at_once(request)
            if left is not None:
                self._handed += 1
                self.worker.run(partial(self._send_slowly, request, left))

    def drop_moved(self) -> None:
        """Look again at queues in line whose records go elsewhere by now, or nowhere at the moment."""
        metadata = self._client.metadata
        if metadata is self._metadata:
            return
        self._metadata = metadata
        for _ in range(len(self.line)):
            queue = self.line[0]
            if self._sender.leader_of(queue) != self.node_id:
                self._leave(queue)
            else:
                self.line.rotate(-1)

    def _load(self, version: int) -> InFlightRequest | None:
        """A request with the next batch of as many queues in line as fit."""
        self.drop_moved()
        batches: Batches = {}
        topics: dict[str, list[PartitionData]] = {}
        planned = size = 0
        now = time.monotonic()
        for _ in range(len(self.line)):
            queue = self.line[0]
            if not queue.ready(now):
                self._leave(queue)
                continue
            planned += queue.peek_size()
            if batches and planned > self._options.max_bytes:
                break
            loaded = self._take(queue, version)
            if loaded is not None:
                batch, buffers = loaded
                batches[queue.topic, queue.partition] = (queue, batch)
                data = PartitionData(index=queue.partition, records=buffers)
                topics.setdefault(queue.topic, []).append(data)
                size += batch.size
            self._leave(queue)
        if not batches:
            return None
        message = ProduceRequest(
            acks=self._options.acks,
            timeout_ms=self._timeout_ms,
            topic_data=[TopicData(name=name, partition_data=data) for name, data in topics.items()],
        )
        return InFlightRequest(batches, size, message, version, self._connection_number)

    def _take(self, queue: PartitionQueue, version: int) -> tuple[ProducerBatch, list[Buffer]] | None:
        batch = queue.take(self.node_id)
        if batch is None:
            return None
        try:
            return batch, batch.buffers(format_for(version))
        except KafkaError as error:
            self._responses.refused(queue, batch, error, in_doubt=False)
            return None

    def _leave(self, queue: PartitionQueue) -> None:
        """Out of the line; it may come back at its end."""
        self.line.popleft()
        queue.queued = False
        if queue.has_more:
            self._sender.look(queue)

    def _send_at_once(self, request: InFlightRequest) -> Rest | None:
        """Send it, in the sender's turn: a record gets there sooner than by way of another thread. What is
        left for the worker: all of it, where it is large, or something stands before it there."""
        connection = None
        if request.size <= _SMALL and self._handed == self._done and self._options.acks:
            connection = self._client.live_connection(self.node_id, Purpose.PRODUCE)
        if connection is None:
            return partial(self._submit, request)
        try:
            self._raise_broken(request)
            version = self._version_for(request, connection)
            answered = partial(self._pass_on, request)
            return connection.submit_at_once(
                request.message, version, answered, timeout=self._options.timeout
            )
        except Exception as error:
            self._cannot_send(request, error)
            return None

    # On the worker's thread, most of the time:

    def _connect(self) -> None:
        failure: KafkaError | None = None
        version: int | None = None
        try:
            connection = self._client.connection(self.node_id, Purpose.PRODUCE, self._options.timeout)
            version = connection.version_of(ProduceRequest, MAX_PRODUCE_VERSION)
        except KafkaError as error:
            failure = error
        self._sender.post(partial(self._connected, version, failure))

    def _send_slowly(self, request: InFlightRequest, left: Rest) -> None:
        try:
            left()
        except Exception as error:
            self._cannot_send(request, error)
        finally:
            self._done += 1

    def _submit(self, request: InFlightRequest) -> None:
        self._raise_broken(request)
        connection = self._client.connection(self.node_id, Purpose.PRODUCE, self._options.timeout)
        connection.submit(
            request.message,
            self._version_for(request, connection),
            partial(self._pass_on, request),
            timeout=self._options.timeout,
            expects_reply=self._options.acks != 0,
        )

    def _version_for(self, request: InFlightRequest, connection: Connection) -> int:
        """Raises UnsupportedVersionError where *request* was made for another record format."""
        version = connection.version_of(ProduceRequest, MAX_PRODUCE_VERSION)
        if version != request.version and format_for(version) != format_for(request.version):
            raise UnsupportedVersionError(f"broker {self.node_id} has changed its version")
        return version

    def _raise_broken(self, request: InFlightRequest) -> None:
        """What stands behind something that has failed on its way fails too."""
        if self._broken is not None and self._broken[0] == request.connection_number:
            raise self._broken[1]

    def _cannot_send(self, request: InFlightRequest, error: Exception) -> None:
        """Whatever it is, the records it happened to must hear of it."""
        failure = error if isinstance(error, KafkaError) else KafkaError(f"cannot be sent: {error!r}")
        self._broken = (request.connection_number, failure)
        self._sender.post(partial(self._unsent, request, failure))

    def _pass_on(
        self, request: InFlightRequest, response: ProduceResponse | None, error: KafkaError | None
    ) -> None:
        if error is None:
            self._sender.hand_over(partial(self._answered, request, response))
        else:  # what ends a connection may be met with its locks held
            self._sender.post(partial(self._unanswered, request, error))

    # In the sender's turn again:

    def _connected(self, version: int | None, failure: KafkaError | None) -> None:
        self._connecting = False
        self._version = version
        self._sender.can_fill(self)
        if failure is None:
            self._failures = 0
            return
        self._unreachable(failure)
        for queue in list(self.line):
            queue.blocked(failure)
            if not failure.retriable:
                self._responses.fail_all(queue, failure)

    def _unsent(self, request: InFlightRequest, error: KafkaError) -> None:
        """Nothing of *request* has reached the broker."""
        self._ended(request)
        self._lost_connection(request)
        self._unreachable(error)
        self._responses.unanswered(request.batches, error, in_doubt=False)

    def _answered(self, request: InFlightRequest, response: ProduceResponse | None) -> None:
        """*request* has been answered, or wanted no answer."""
        self._ended(request)
        if response is None:
            self._responses.sent(request.batches)
        else:
            if response.throttle_time_ms:
                self._rest(response.throttle_time_ms / 1000)
            self._responses.apply(request.batches, response, self.node_id)

    def _unanswered(self, request: InFlightRequest, error: KafkaError) -> None:
        """*request* may have reached the broker, and will not be answered."""
        self._ended(request)
        self._lost_connection(request)
        self._sender.want_metadata()
        self._responses.unanswered(request.batches, error, in_doubt=True)

    def _ended(self, request: InFlightRequest) -> None:
        self._in_flight -= 1
        self._sender.can_fill(self)

    def _lost_connection(self, request: InFlightRequest) -> None:
        """*request* has found no way: look for another."""
        if request.connection_number == self._connection_number:
            self._connection_number += 1
            self._version = None

    def _unreachable(self, failure: KafkaError) -> None:
        """Leave the broker alone for a while, and see whether others lead its partitions by now."""
        log.debug("broker %d: %s", self.node_id, failure)
        self._failures += 1
        self._rest(self._backoff.pause(self._failures))
        self._sender.want_metadata()

    def _rest(self, seconds: float) -> None:
        """Send nothing for so long; a longer rest that has begun before goes on."""
        self.rest_until = max(self.rest_until, time.monotonic() + seconds)

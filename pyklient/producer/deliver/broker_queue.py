"""The requests to one broker: the partitions whose batches wait to be sent to it, and the requests in flight.

A BrokerQueue alone changes the state of its broker: the connection, the number of requests in flight, and the
time at which a pause ends. All functions here run with the sender lock held, except for ``_received``, which
the connection calls, and the functions that the worker runs to connect and to write.
"""

import logging
import time
from functools import partial
from typing import Final

from pyklient.errors import KafkaError, UnsupportedVersionError
from pyklient.net.backoff import Backoff
from pyklient.net.connection.connection import Connection, Remainder
from pyklient.net.network_client import NetworkClient, Purpose
from pyklient.net.produce_versions import format_for
from pyklient.producer.accumulate.leader_availability import LeaderAvailability
from pyklient.producer.accumulate.memory_use import MemoryUse
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.produce_requests import InFlightRequest, ProduceRequests, RequestOptions
from pyklient.producer.deliver.produce_responses import ProduceResponses
from pyklient.producer.metadata_refresher import MetadataRefresher
from pyklient.producer.threads.blocking_worker import BlockingWorker
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.threads.timers import Timed
from pyklient.protocol.messages import ProduceRequest, ProduceResponse

__all__ = ["BrokerQueue"]

_SMALL: Final = 256 * 1024
"""The largest size in bytes of the requests that the sender writes itself. A socket seldom accepts all of a
larger request at once."""

_ENOUGH: Final = 2
"""The number of requests in flight that keep a slow broker busy: one that it handles, and the next one."""

log = logging.getLogger("pyklient.producer")


class BrokerQueue(Timed):
    """The requests to one broker, and the partitions that wait to be sent to it.

    A BrokerQueue adds itself to *changed* when the sender should call ``send_next``.
    """

    def __init__(
        self,
        node_id: int,
        client: NetworkClient,
        options: RequestOptions,
        backoff: Backoff,
        responses: ProduceResponses,
        metadata: MetadataRefresher,
        thread: SenderThread,
        memory: MemoryUse,
        leaders: LeaderAvailability,
        changed: "set[BrokerQueue]",
    ) -> None:
        self.node_id = node_id
        self.requests = ProduceRequests(node_id, client, options, responses)
        """Makes requests from the batches of the partitions that wait to be sent to this broker."""
        self.in_flight = 0
        """The number of requests that were sent and have no response yet."""
        self._memory_in_flight = 0
        """The memory in bytes of the batches of these requests."""
        self._waits_at_last_end = 0
        """The value of ``MemoryUse.waits`` when a request ended last, usually with a response."""
        self._waits_at_end_before = 0
        """The value of ``MemoryUse.waits`` when the request before that one ended."""
        self.paused_until = 0.0
        """The time before which nothing is sent, because the broker throttles this client or could not be
        reached."""
        self.worker = BlockingWorker(f"pyklient-producer-{node_id}")
        self._client = client
        self._options = options
        self._backoff = backoff
        self._responses = responses
        self._metadata = metadata
        self._thread = thread
        self._memory = memory
        self._leaders = leaders
        self._changed = changed
        self._given = 0
        """The number of requests that were given to the worker, the thread that connects and writes.
        ``_done`` counts the requests that the worker has finished."""
        self._done = 0
        self._failures = 0
        """The number of failed attempts to reach the broker since the last successful attempt."""
        self._version: int | None = None
        self._connecting = False
        self._connection_number = 0
        # Set by the worker, and by the sender for small requests: requests behind one that could not be sent
        # fail too, so that batches stay in order.
        self._broken: tuple[int, KafkaError] | None = None

    def on_timer(self) -> None:
        """Tell the sender to call ``send_next``, because the broker's pause is over."""
        self._changed.add(self)

    def enqueue(self, queue: PartitionQueue) -> None:
        """Append *queue*, which has a batch to send, to the partitions that wait for this broker."""
        self.requests.enqueue(queue)
        self._changed.add(self)

    def note_complete(self, queue: PartitionQueue) -> None:
        """Tell the sender to call ``send_next``, because *queue* has a batch that accepts no more records."""
        self.requests.note_complete(queue)
        self._changed.add(self)

    def send_next(self) -> bool:
        """Send one request, if the broker may get a request now. Return False if another call would send
        nothing."""
        if self._send_next():
            return True
        is_full = self.in_flight >= self._options.max_in_flight
        if is_full or (self.requests.line and not (self._keeps_up and self._gathers())):
            self._leaders.blocked(self.node_id)
        else:
            self._leaders.accepts(self.node_id)
        return False

    def _send_next(self) -> bool:
        if not self.requests.line or self.in_flight >= self._options.max_in_flight:
            return False
        gathers = self._gathers()
        if (gathers and not self.requests.complete) or time.monotonic() < self.paused_until:
            return False
        if self._version is None:
            if not self._connecting:
                self._connecting = True
                self.worker.run(self._connect)
            return False
        request = self.requests.next(self._version, self._connection_number, only_complete=gathers)
        if request is not None:
            self.in_flight += 1
            self._memory_in_flight += request.memory
            self._leaders.accepts(self.node_id)
            left = self._send_at_once(request)
            if left is not None:
                self._given += 1
                self.worker.run(partial(self._send_slowly, request, left))
        return bool(self.requests.line)

    def _gathers(self) -> bool:
        """Return True if batches that accept more records wait until a response arrives, because they can
        grow meanwhile.

        They wait if the requests in flight have enough data to keep the broker busy. A broker handles the
        requests of a connection one after the other. So batches that are sent now would not be stored sooner,
        and they would be smaller: with a thousand partitions they would have a few records each.

        If the broker keeps up with the program, one request is enough to keep it busy. Otherwise, at least
        two requests with much data are needed.
        """
        if not self.in_flight:
            return False
        memory, in_flight = self._memory, self._memory_in_flight
        if self._keeps_up:
            return in_flight >= memory.a_thirty_second and memory.used >= memory.an_eighth
        return in_flight >= memory.an_eighth and self.in_flight >= _ENOUGH and memory.is_short

    @property
    def _keeps_up(self) -> bool:
        """True if the broker is faster than the program: an eighth of the memory is free, and no thread has
        begun to wait for memory since the request before the last one ended."""
        memory = self._memory
        return memory.waits == self._waits_at_end_before and memory.an_eighth_is_free

    def _send_at_once(self, request: InFlightRequest) -> Remainder | None:
        """Send *request* without waiting, in this thread, so that its records arrive sooner.

        Return a function with which the worker sends the remainder, or None if nothing remains. If *request*
        is large, or if the worker has not finished earlier requests, the remainder is the whole request.
        """
        connection = None
        if request.size <= _SMALL and self._given == self._done and self._options.acks:
            connection = self._client.live_connection(self.node_id, Purpose.PRODUCE)
        if connection is None:
            return partial(self._submit, request)
        try:
            if self._broken is not None:
                self._raise_broken(request)
            version = self._version_for(request, connection)
            received = partial(self._received, request)
            return connection.submit_at_once(
                request.message, version, received, timeout=self._options.timeout
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
            version = connection.version_of(ProduceRequest, self._options.max_version)
        except KafkaError as error:
            failure = error
        self._thread.post(partial(self._connected, version, failure))

    def _send_slowly(self, request: InFlightRequest, left: Remainder) -> None:
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
            partial(self._received, request),
            timeout=self._options.timeout,
            expects_reply=self._options.acks != 0,
        )

    def _version_for(self, request: InFlightRequest, connection: Connection) -> int:
        """Return the version of Produce with which to send *request*.

        Raises UnsupportedVersionError if the broker now needs another record format than the format for which
        *request* was made.
        """
        version = connection.version_of(ProduceRequest, self._options.max_version)
        if version != request.version and format_for(version) != format_for(request.version):
            raise UnsupportedVersionError(
                f"a request was not sent to broker {self.node_id}, because the broker does not accept the "
                "record format of the request any more; perhaps another version of Kafka runs there now"
            )
        return version

    def _raise_broken(self, request: InFlightRequest) -> None:
        """If an earlier request could not be sent on the connection of *request*, raise the error of that
        earlier request. Otherwise do nothing."""
        if self._broken is not None and self._broken[0] == request.connection_number:
            raise self._broken[1]

    def _cannot_send(self, request: InFlightRequest, error: Exception) -> None:
        failure = (
            error
            if isinstance(error, KafkaError)
            else KafkaError(
                f"sending to broker {self.node_id} failed unexpectedly; please report this: {error!r}"
            )
        )
        self._broken = (request.connection_number, failure)
        self._thread.post(partial(self._not_sent, request, failure))

    def _received(
        self, request: InFlightRequest, response: ProduceResponse | None, error: KafkaError | None
    ) -> None:
        if error is None:
            self._thread.post_and_run(partial(self._answered, request, response))
        else:  # a connection may report its end with its locks held
            self._thread.post(partial(self._unanswered, request, error))

    # With the sender lock held again:

    def _connected(self, version: int | None, failure: KafkaError | None) -> None:
        self._connecting = False
        self._version = version
        self._changed.add(self)
        if failure is None:
            self._failures = 0
            return
        self._unreachable(failure)
        for queue in list(self.requests.line):
            queue.blocked_by = failure
            if not failure.retriable:
                self._responses.fail_all(queue, failure)

    def _not_sent(self, request: InFlightRequest, error: KafkaError) -> None:
        """Remove *request* from the requests in flight, because no part of it has reached the broker. Retry
        or fail its batches."""
        self._end(request)
        self._lose_connection(request)
        self._unreachable(error)
        self._responses.unanswered(request.batches, error, in_doubt=False)

    def _answered(self, request: InFlightRequest, response: ProduceResponse | None) -> None:
        """Remove *request* from the requests in flight, because its *response* has arrived, and apply the
        response. With ``acks=0``, *response* is None."""
        self._end(request)
        if response is None:
            self._responses.sent(request.batches)
        else:
            if response.throttle_time_ms:
                self._pause(response.throttle_time_ms / 1000)
            self._responses.apply(request.batches, response, self.node_id)

    def _unanswered(self, request: InFlightRequest, error: KafkaError) -> None:
        """Remove *request* from the requests in flight, because it will get no response. Retry or fail its
        batches, which the broker may have stored."""
        self._end(request)
        self._lose_connection(request)
        self._metadata.want()
        self._responses.unanswered(request.batches, error, in_doubt=True)

    def _end(self, request: InFlightRequest) -> None:
        was_full = self.in_flight >= self._options.max_in_flight
        self.in_flight -= 1
        self._memory_in_flight -= request.memory
        self._waits_at_end_before, self._waits_at_last_end = self._waits_at_last_end, self._memory.waits
        if was_full or self.requests.line:
            self._changed.add(self)

    def _lose_connection(self, request: InFlightRequest) -> None:
        """Use a new connection for the next request. Do nothing if the connection of *request* was already
        replaced."""
        if request.connection_number == self._connection_number:
            self._connection_number += 1
            self._version = None

    def _unreachable(self, failure: KafkaError) -> None:
        """Pause for the back-off, and refresh the metadata, because other brokers may lead the partitions
        now."""
        log.debug(
            "the producer tries again, because broker %d could not be reached: %s", self.node_id, failure
        )
        self._failures += 1
        self._pause(self._backoff.pause(self._failures))
        self._metadata.want()

    def _pause(self, seconds: float) -> None:
        """Send nothing to the broker for *seconds*, or until the end of an earlier pause if that is later."""
        self.paused_until = max(self.paused_until, time.monotonic() + seconds)

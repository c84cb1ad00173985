"""Makes the Produce requests to one broker, from the batches of the partitions that wait to be sent."""

import time
from collections import OrderedDict
from typing import NamedTuple, TypeAlias

from pyklient.config import ProducerConfig
from pyklient.errors import KafkaError
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.net.produce_versions import MAX_PRODUCE_VERSION, check_codec, format_for
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.produce_responses import Batches, ProduceResponses
from pyklient.producer.deliver.sealed_batch import SealedBatch
from pyklient.producer.transactions.transaction import Transaction
from pyklient.protocol.messages import ProduceRequest
from pyklient.protocol.records.layout import Buffer

__all__ = ["InFlightRequest", "ProduceRequests", "RequestOptions"]

PartitionData: TypeAlias = ProduceRequest.TopicProduceData.PartitionProduceData
TopicData = ProduceRequest.TopicProduceData


class RequestOptions(NamedTuple):
    """The options of Produce requests."""

    acks: int
    timeout: float
    """The time-out of a request, in seconds."""
    max_in_flight: int
    max_bytes: int
    """The largest size of a request in bytes. A request with a single batch may be larger."""
    transaction: Transaction | None = None
    """The transaction of the producer; None without transactions."""

    @classmethod
    def of(cls, config: ProducerConfig, transaction: Transaction | None) -> "RequestOptions":
        """Return the options of the Produce requests of a producer that has the options *config*."""
        return cls(
            config.acks_wire,
            config.request_timeout_ms / 1000,
            config.max_in_flight_requests_per_connection,
            config.produce_max_bytes,
            transaction,
        )

    @property
    def max_version(self) -> int:
        """The newest version of Produce that may be used now. In a transaction, the version of the protocol
        for transactions limits it."""
        return MAX_PRODUCE_VERSION if self.transaction is None else self.transaction.max_produce_version


class InFlightRequest(NamedTuple):
    """A Produce request, its batches, and the serial number of the connection for which it was made."""

    batches: Batches
    size: int
    """The size of all batches together, in bytes."""
    memory: int
    """The memory of all batches together, in bytes. For small batches, this is much more than their size."""
    message: ProduceRequest
    version: int
    connection_number: int


class ProduceRequests:
    """Makes Produce requests to one broker from the batches of the partitions that wait for this broker.
    Callers must hold the sender lock.

    If a batch cannot be sent in the version of Produce that the broker supports, *responses* reports it as
    failed.
    """

    def __init__(
        self, node_id: int, client: NetworkClient, options: RequestOptions, responses: ProduceResponses
    ) -> None:
        self.line: OrderedDict[PartitionQueue, None] = OrderedDict()
        """The partitions that have a batch for this broker: one that may be sent now, or a sealed one."""
        self.complete: OrderedDict[PartitionQueue, None] = OrderedDict()
        """Those of these partitions whose next batch accepts no more records."""
        self._node_id = node_id
        self._client = client
        self._options = options
        transaction = options.transaction
        self._transactional_id = None if transaction is None else transaction.transactional_id
        self._timeout_ms = int(options.timeout * 1000)
        self._responses = responses
        self._counts = responses.counts
        self._snapshot: Metadata | None = None
        """The metadata that ``drop_moved`` used last. ``drop_moved`` has nothing to do until the metadata
        changes."""

    def enqueue(self, queue: PartitionQueue) -> None:
        """Append *queue*, which has a batch to send, to the partitions that wait for this broker."""
        queue.in_line = queue.routed = True
        self.line[queue] = None
        self.note_complete(queue)

    def note_complete(self, queue: PartitionQueue) -> None:
        """Check if the next batch of *queue*, which is in line, accepts no more records."""
        if queue.is_complete and queue in self.line:
            self.complete[queue] = None

    def drop_moved(self) -> None:
        """Remove from the waiting partitions those that this broker does not lead any more."""
        metadata = self._client.metadata
        if metadata is self._snapshot:
            return
        self._snapshot = metadata
        for queue in list(self.line):
            leader = metadata.leader(queue.at)
            if leader is None or leader.id != self._node_id:
                self._remove(queue)

    def next(
        self, version: int, connection_number: int, *, only_complete: bool = False
    ) -> InFlightRequest | None:
        """Return a request in *version*, with one batch of each waiting partition. Partitions whose batches
        do not fit into the request keep waiting. Return None if no partition has a batch to send now.

        *connection_number* is the serial number of the connection on which the request will be sent. If
        *only_complete*, leave out batches that accept more records.
        """
        self.drop_moved()
        batches: Batches = {}
        topics: dict[str, list[PartitionData]] = {}
        planned = size = memory = 0
        # The sums of the batches that are sent for the first time:
        new_records = new_size = new_compressed = 0
        queue_times: list[float] = []
        now = time.monotonic()
        record_format = format_for(version)
        candidates = self.complete if only_complete else self.line
        for _ in range(len(candidates)):
            queue = next(iter(candidates))
            if not queue.ready(now):
                self._remove(queue)
                continue
            planned += queue.next_size()
            if batches and planned > self._options.max_bytes:
                break
            drained = self._drain_batch(queue, version, record_format)
            if drained is not None:
                batch, buffers = drained
                batches[queue.topic, queue.partition] = (queue, batch)
                data = PartitionData(index=queue.partition, records=buffers)
                topics.setdefault(queue.topic, []).append(data)
                size += batch.size
                memory += batch.batch.charged
                if batch.attempts == 1:
                    new_records += batch.count
                    new_size += batch.plain_size
                    new_compressed += batch.size
                    queue_times.append(now - batch.batch.created)
            self.complete.pop(queue, None)
            if queue.stays_in_line(now):
                self.line.move_to_end(queue)
                self.note_complete(queue)
            else:
                del self.line[queue]
        if not batches:
            return None
        if queue_times:
            self._counts.seal(new_records, new_size, new_compressed, queue_times, now)
        message = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=self._options.acks,
            timeout_ms=self._timeout_ms,
            topic_data=[TopicData(name=name, partition_data=data) for name, data in topics.items()],
        )
        return InFlightRequest(batches, size, memory, message, version, connection_number)

    def _drain_batch(
        self, queue: PartitionQueue, version: int, record_format: int
    ) -> tuple[SealedBatch, list[Buffer]] | None:
        batch = queue.drain(self._node_id)
        if batch is None:
            return None
        try:
            if batch.codec:
                check_codec(batch.codec, version, self._node_id)
            return batch, batch.buffers(record_format, transactional=queue.transactional)
        except KafkaError as error:
            self._responses.failed(queue, batch, error, in_doubt=False)
            return None

    def _remove(self, queue: PartitionQueue) -> None:
        """Remove *queue* from the waiting partitions. The sender appends it again if it has another batch to
        send."""
        del self.line[queue]
        self.complete.pop(queue, None)
        queue.leave_line()

"""The sender: it routes batches to the leaders of their partitions, and waits for metadata and producer ids.

All functions here run with the sender lock held (see ``pyklient.producer.threads.sender_thread``), except
``has_new_batches``, ``last_failure`` and ``workers``, which any thread may call.
"""

import time
from typing import TYPE_CHECKING

from pyklient.config import ProducerConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import ClosedError, KafkaError, broker_error
from pyklient.kernel import Batch
from pyklient.net.backoff import Backoff
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.deliver.batch_compression import BatchCompressor
from pyklient.producer.deliver.broker_queue import BrokerQueue
from pyklient.producer.deliver.in_flight_limits import in_flight_limits
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.produce_requests import RequestOptions
from pyklient.producer.deliver.produce_responses import ProduceResponses
from pyklient.producer.deliver.producer_identity import ProducerIdentity
from pyklient.producer.deliver.retry_policy import RetryPolicy
from pyklient.producer.deliver.sequences import Sequences
from pyklient.producer.deliver.topics_in_use import GONE_AFTER, TopicsInUse
from pyklient.producer.metadata_refresher import MetadataRefresher
from pyklient.producer.threads.blocking_worker import BlockingWorker
from pyklient.producer.threads.sender_thread import SenderThread, SenderWork
from pyklient.producer.threads.timers import Timed
from pyklient.producer.transactions.transaction import Transaction
from pyklient.protocol.records import Compression
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:  # imported when it is used: most programs have no transactions
    from pyklient.producer.deliver.transaction_batches import TransactionBatches

__all__ = ["Sender"]


class Sender(SenderWork, Timed):
    """Gets new batches from the accumulator, and puts them into the queues of their partitions and leaders.

    The Sender's own timer is the deadline of ``close``. *worker* waits for metadata and producer ids.
    """

    def __init__(
        self,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        config: ProducerConfig,
        thread: SenderThread,
        worker: BlockingWorker,
        metadata: MetadataRefresher,
        identity: ProducerIdentity,
        transaction: Transaction | None,
    ) -> None:
        self._accumulator = accumulator
        self._client = client
        self._thread, self._timers = thread, thread.timers
        self._worker = worker
        self._metadata = metadata
        self._delivery_timeout = config.delivery_timeout_ms / 1000
        self._options = RequestOptions.of(config, transaction)
        self._limits = in_flight_limits(config.max_in_flight_requests_per_connection)
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._compressor = BatchCompressor(accumulator, Compression.of(config.compression_type))
        self._identity = identity
        self._responses = ProduceResponses(
            accumulator, RetryPolicy(config, self._backoff), metadata, config.delivery_timeout_ms, transaction
        )
        self._topics = TopicsInUse(config.metadata_max_idle_ms / 1000)
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self.transactions: TransactionBatches | None = None
        if transaction is not None:
            self.transactions = _transaction_batches()(
                transaction, identity, client, self._backoff, worker, thread, self._queues, self._responses
            )
        self._changed_queues: dict[PartitionQueue, None] = {}
        """The queues to check before the sender sleeps again, in the order in which they changed."""
        self._brokers: dict[int, BrokerQueue] = {}
        self._changed_brokers: set[BrokerQueue] = set()
        """The brokers to which to send something before the sender sleeps again."""
        self._full_brokers: set[BrokerQueue] = set()
        self._waiting_for_leader: set[PartitionQueue] = set()
        self._waiting_for_identity: set[PartitionQueue] = set()
        self._closing = self._time_is_up = False
        self._deadline = 0.0
        thread.assign(self)

    # Called by the sender's thread

    def has_new_batches(self) -> bool:
        """Return True if there are batches that the sender has not collected yet. Safe from any thread."""
        return bool(self._accumulator.new_batches or self._accumulator.sealer.due_batches)

    def is_full(self) -> bool:
        """Return True if every broker has as many requests in flight as the options allow."""
        if not self._full_brokers:
            return False
        nodes = self._client.metadata.nodes
        # A full broker that has left the cluster says nothing about those that are in it.
        return len(self._full_brokers) >= len(nodes) and all(
            broker.node_id in nodes for broker in self._full_brokers
        )

    def step(self) -> bool:
        """Send the batches that can be sent. Return False if the producer closes and nothing is left."""
        if self._metadata.is_due:
            self._metadata.ask(self._topics_to_refresh())
        if self._metadata.result is not None:
            self._apply_metadata()
        if self._identity.result is not None:
            self._apply_identity()
        self._collect_new_batches()
        if self.transactions is not None:
            self.transactions.drop_unsent()
        while self._changed_queues or self._changed_brokers:
            if self._changed_queues:
                queues = list(self._changed_queues)
                self._changed_queues.clear()
                for queue in queues:
                    self._check(queue)
            if self._changed_brokers:
                self._send_to(self._changed_brokers.pop())
        if self._metadata.due != self._metadata.timer:
            self._timers.set(self._metadata, self._metadata.due)
        if self._identity.due != self._identity.timer:
            self._timers.set(self._identity, self._identity.due)
        return not self._closing or (self._accumulator.has_unfinished() and not self._time_is_up)

    def end(self, crash: BaseException | None) -> None:
        """Fail all remaining batches, and end the workers and connections. *crash* is the exception that
        ended the sender."""
        failure: KafkaError = _closed_error(None)
        if crash is not None:
            failure = KafkaError(f"the producer's sender failed unexpectedly; please report this: {crash!r}")
            failure.__cause__ = crash
            self._accumulator.close(failure)
        else:
            self._collect_new_batches()
            for queue in self._queues.values():
                self._responses.fail_all(queue, _closed_error(queue.last_failure))
        for batch in self._accumulator.unfinished():
            self._accumulator.sealer.seal(batch)
            self._accumulator.finished([batch], batch.fail_unreported(failure))
        for worker in self.workers():
            worker.stop()
        self._client.close(max(self._deadline - time.monotonic(), 0.0))

    def on_timer(self) -> None:
        """Fail the remaining batches in the next step, because the deadline of ``close`` has passed."""
        self._time_is_up = True

    # Posted by the Producer

    def flush(self) -> None:
        """Send the batches that ``seal_open_batches`` has sealed, also those that wait to grow."""
        self._collect_new_batches()

    def close(self, deadline: float) -> None:
        """Deliver the remaining batches until *deadline*, and then end the sender."""
        self._closing, self._deadline = True, deadline
        self._time_is_up = time.monotonic() >= deadline
        self._timers.set(self, deadline)
        self.flush()

    # Safe from any thread

    def last_failure(self, batch: Batch) -> KafkaError | None:
        """Return the reason why *batch* is not confirmed yet. Return None if nothing has failed."""
        queue = self._queues.get((batch.topic, batch.partition))
        return None if queue is None else queue.last_failure

    def workers(self) -> list[BlockingWorker]:
        """Return the workers of the sender. Call this after the sender has ended, because it may add workers
        until then."""
        return [self._worker, *(broker.worker for broker in self._brokers.values())]

    # Partitions

    def _collect_new_batches(self) -> None:
        """Add the batches that users' threads have begun or sealed to the queues of their partitions."""
        new, due = self._accumulator.new_batches, self._accumulator.sealer.due_batches
        queues, last_used = self._queues, self._topics.last_used
        while new:
            batch = new.popleft()
            last_used[batch.topic] = batch.created
            queue = queues.get((batch.topic, batch.partition))
            (queue or self._queue_of(batch)).add(batch)
        while due:
            self._queue_of(due.popleft()).note_change()

    def _queue_of(self, batch: Batch) -> PartitionQueue:
        key = (batch.topic, batch.partition)
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = PartitionQueue(
                TopicPartition(*key),
                Sequences(transactional=self.transactions is not None) if self._identity.enabled else None,
                self._compressor,
                self._limits,
                self._changed_queues,
                linger=self._accumulator.sealer.linger,
                delivery_timeout=self._delivery_timeout,
            )
        return queue

    def _check(self, queue: PartitionQueue) -> None:
        """Fail the batches of *queue* that have expired. If *queue* has a batch to send, append *queue* to
        the partitions that wait for their leader."""
        now = time.monotonic()
        next_check = queue.next_check(now)
        if next_check <= now:
            self._responses.expire(queue, now)
            next_check = queue.next_check(now)
        if not queue.in_line and queue.ready(now):
            self._route(queue)
        elif queue.in_line and queue.is_complete:  # it need not wait until a busy broker responds
            leader = self._client.metadata.leader(queue.at)
            if leader is not None and leader.id in self._brokers:
                self._brokers[leader.id].note_complete(queue)
        if next_check != queue.timer:
            self._timers.set(queue, next_check)

    def _route(self, queue: PartitionQueue) -> None:
        """Append *queue*, which has a batch to send, to the BrokerQueue of its partition's leader. If the
        leader or the producer id is not known yet, record that *queue* waits."""
        if self._waiting_for_leader:
            self._waiting_for_leader.discard(queue)
        if self._waiting_for_identity:
            self._waiting_for_identity.discard(queue)
        leader = self._client.metadata.leader(queue.at)
        if leader is None:
            info = self._client.metadata.topics.get(queue.topic)
            code = info.error if info is not None else ErrorCode.NONE
            if code or queue.blocked_by is None:
                queue.blocked_by = broker_error(code or ErrorCode.LEADER_NOT_AVAILABLE, str(queue.at))
            self._metadata.want()
            self._waiting_for_leader.add(queue)
            return
        if queue.must_wait_for(leader.id):
            return  # the response of the other broker causes the next check
        if not self._identity.provide(queue.sequences):
            self._waiting_for_identity.add(queue)
            return
        if self.transactions is not None and not self.transactions.admit(queue):
            return  # the response of the coordinator causes the next check
        broker = self._brokers.get(leader.id)
        if broker is None:
            broker = self._brokers[leader.id] = BrokerQueue(
                leader.id,
                self._client,
                self._options,
                self._backoff,
                self._responses,
                self._metadata,
                self._thread,
                self._accumulator.memory,
                self._accumulator.choice.leaders,
                self._changed_brokers,
            )
        broker.enqueue(queue)

    def _send_to(self, broker: BrokerQueue) -> None:
        if broker.send_next():
            self._changed_brokers.add(broker)
        if broker.in_flight >= self._limits.requests:
            self._full_brokers.add(broker)
        else:
            self._full_brokers.discard(broker)
        if broker.requests.line and broker.paused_until > time.monotonic():
            self._timers.set(broker, broker.paused_until)

    def _topics_to_refresh(self) -> set[str]:
        """Forget the topics that are idle, and return the other topics.

        The topics of unfinished batches are returned too, even if the metadata lacks them. A broker that has
        just started may not know these topics for a moment, and their batches still need a leader.
        """
        busy = {queue.topic for queue in self._queues.values() if queue.in_line or not queue.idle}
        busy.update(batch.topic for batch in list(self._accumulator.new_batches))
        known = {*self._accumulator.appender.topics(), *self._client.metadata.topics}
        idle = self._topics.forget_idle(known, busy)
        if idle:
            # The queues of a transactional producer stay, because their sequence numbers continue.
            for key in [key for key in self._queues if key[0] in idle and self.transactions is None]:
                self._identity.forget(self._queues.pop(key).sequences)
            for topic in idle:
                self._accumulator.forget(topic)
            self._client.forget_topics(idle)
        return {*self._accumulator.appender.topics(), *busy}

    def _apply_metadata(self) -> None:
        """Apply the outcome of a metadata refresh to the partitions and brokers."""
        result, self._metadata.result = self._metadata.result, None
        assert result is not None
        metadata, failure = result
        appender = self._accumulator.appender
        for name, topic in metadata.topics.items() if metadata is not None else ():
            if topic.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                appender.remove_topic(name)
            elif topic.partitions and appender.partition_count(name) != len(topic.partitions):
                appender.set_partitions(name, len(topic.partitions))
        for broker in self._brokers.values():
            broker.requests.drop_moved()
            self._changed_brokers.add(broker)
        waiting, self._waiting_for_leader = self._waiting_for_leader, set()
        if metadata is not None:
            self._fail_missing(waiting, metadata)
        self._check_again(waiting, failure)

    def _fail_missing(self, waiting: set[PartitionQueue], metadata: Metadata) -> None:
        """If the producer is closing, fail the records of topics that were missing from the metadata for
        ``GONE_AFTER`` seconds. *waiting* are the queues that have no leader."""
        self._topics.note_missing({queue.topic for queue in waiting}, metadata)
        for queue in waiting if self._closing else ():
            if self._topics.is_gone(queue.topic):
                self._responses.fail_all(queue, _gone_error(queue))

    def _apply_identity(self) -> None:
        """Apply the outcome of a request for a producer id to the partitions that wait for it."""
        result, self._identity.result = self._identity.result, None
        assert result is not None
        failure = result.failure
        if not self._identity.enabled:
            for queue in self._queues.values():
                queue.without_idempotence()
        waiting, self._waiting_for_identity = self._waiting_for_identity, set()
        if failure is not None and not failure.retriable:
            for queue in waiting:
                self._responses.fail_all(queue, failure)
            failure = None
        self._check_again(waiting, failure)

    def _check_again(self, queues: set[PartitionQueue], failure: KafkaError | None) -> None:
        for queue in queues:
            self._check(queue)
            if failure is not None:
                queue.blocked_by = failure


def _gone_error(queue: PartitionQueue) -> KafkaError:
    return broker_error(
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        f"{queue.at}: every response of the brokers in the last {GONE_AFTER:g} s said that topic "
        f"{queue.topic!r} does not exist, so closing does not wait for it any longer; was it deleted?",
    )


def _closed_error(failure: KafkaError | None) -> ClosedError:
    """Return the error for records that were not confirmed when the producer closed. *failure* is their last
    failure."""
    last_failure = "" if failure is None else f"; the last failure: {failure}"
    error = ClosedError(f"the producer was closed before the broker had confirmed this record{last_failure}")
    error.__cause__ = failure
    return error


def _transaction_batches() -> "type[TransactionBatches]":
    from pyklient.producer.deliver.transaction_batches import TransactionBatches

    return TransactionBatches

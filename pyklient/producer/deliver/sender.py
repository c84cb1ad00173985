"""What is under way: which partition's records go to which broker, and what they wait for before that.

Everything here runs in the sender's turn (``threads``); see ``SenderCalls`` for what the
brokers' queues want of it.
"""

import time
from typing import Final

from pyklient.config import ProducerConfig
from pyklient.errors import ClosedError, KafkaError, broker_error
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient
from pyklient.net.metadata import Metadata
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.deliver.broker_queue import BrokerQueue, RequestOptions, SenderCalls
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.produce_responses import ProduceResponses, run_callbacks
from pyklient.producer.deliver.producer_identity import ProducerIdManager, Sequences
from pyklient.producer.deliver.sealed_batch import ProducerBatch, seal
from pyklient.producer.threads.sender_thread import BlockingWorker, SenderThread
from pyklient.producer.topic_metadata import MetadataRefresher
from pyklient.protocol.records import Compression
from pyklient.protocol.records.kernel import Batch
from pyklient.topic_partition import TopicPartition

__all__ = ["Sender"]

_NEVER: Final = float("inf")
_NONE: Final = 0
_UNKNOWN_TOPIC_OR_PARTITION: Final = 3
_LEADER_NOT_AVAILABLE: Final = 5
_GONE_AFTER: Final = 5.0
"""Seconds for which every answer has said that a topic does not exist, before a producer that closes
believes it. A broker that has just started may not know a topic yet, and a topic may be deleted and created
again; both take less. Without ``close``, records wait for their topic until ``delivery_timeout_ms``, as
Java's client has them wait."""


class Sender:
    """Takes batches from the accumulator and gives them to the queues of their leaders."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        client: NetworkClient,
        config: ProducerConfig,
        thread: SenderThread,
    ) -> None:
        self.timer = self.alarm = _NEVER
        """When it gives up what is left: the thread's."""
        self._accumulator = accumulator
        self._client = client
        self._thread = thread
        self._codec = Compression.of(config.compression_type)
        self._linger = config.linger_ms / 1000
        self._patience = config.delivery_timeout_ms / 1000
        self._max_idle = config.metadata_max_idle_ms / 1000
        self._options = RequestOptions(
            config.acks_wire,
            config.request_timeout_ms / 1000,
            config.max_in_flight_requests_per_connection,
            config.produce_max_bytes,
        )
        self._backoff = Backoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._used: dict[str, float] = {}
        """When topics were used last: a batch for them was begun, or they were seen first."""
        self._brokers: dict[int, BrokerQueue] = {}
        self._to_fill: set[BrokerQueue] = set()
        self._full: set[BrokerQueue] = set()
        self._waiting_for_leader: set[PartitionQueue] = set()
        self._waiting_for_producer_id: set[PartitionQueue] = set()
        self._missing: dict[str, float] = {}
        """Since when metadata has said of topics, without interruption, that they do not exist."""
        self._closing = False
        self._time_is_up = False
        self._worker = BlockingWorker("pyklient-producer-metadata")
        self._metadata = MetadataRefresher(
            client,
            self._backoff,
            self._worker,
            timeout=self._options.timeout,
            max_age=config.metadata_max_age_ms / 1000,
            topics=self._topics,
            post=thread.post,
            learned=self._learned,
        )
        self._producer_id = ProducerIdManager(
            client,
            self._backoff,
            self._worker,
            wanted=config.wants_idempotence,
            required=config.enable_idempotence is True,
            timeout=self._options.timeout,
            post=thread.post,
            identified=self._identified,
        )
        self._responses = ProduceResponses(
            accumulator, config, self._backoff, look=self._look, want_metadata=self.want_metadata
        )
        self._calls = SenderCalls(
            thread.post, thread.hand_over, self._leader_of, self._look, self._to_fill.add, self.want_metadata
        )

    # What the thread calls

    def has_news(self) -> bool:
        """See Work."""
        return bool(self._accumulator.begun or self._accumulator.filled)

    def is_full(self) -> bool:
        """See Work."""
        if not self._full:
            return False
        nodes = self._client.metadata.nodes
        # One that is full and has left the cluster says nothing of those that are in it.
        return len(self._full) >= len(nodes) and all(broker.node_id in nodes for broker in self._full)

    def step(self) -> bool:
        """See Work."""
        self._take_new_batches()
        while self._to_fill:
            broker = self._to_fill.pop()
            broker.fill()
            if broker.is_full:
                self._full.add(broker)
            else:
                self._full.discard(broker)
            if broker.line and broker.rest_until > time.monotonic():
                self._thread.set_timer(broker, broker.rest_until, self._to_fill.add)
        if self._metadata.due != self._metadata.timer:
            self._thread.set_timer(self._metadata, self._metadata.due, MetadataRefresher.ask)
        if self._producer_id.due != self._producer_id.timer:
            self._thread.set_timer(self._producer_id, self._producer_id.due, ProducerIdManager.ask)
        return not self._closing or (bool(self._accumulator.unfinished()) and not self._time_is_up)

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
                self._responses.fail_all(queue, _closed_before(queue, failure))
        for gathered in self._accumulator.unfinished():
            self._accumulator.appender.take(gathered)
            listeners = gathered.settle_rest(failure)
            self._accumulator.finished(gathered, listeners, run_callbacks)
        for worker in self.workers():
            worker.stop()
        self._client.close()

    # What the Producer has the thread call

    def flush(self) -> None:
        """Batches have been closed by ``mark``: see to them."""
        self._take_new_batches()

    def close(self, deadline: float) -> None:
        """Deliver what there is until *deadline*, and end."""
        self._closing = True
        self._time_is_up = time.monotonic() >= deadline
        self._thread.set_timer(self, deadline, Sender._give_up)
        self.flush()

    def want_metadata(self, topic: str | None = None) -> None:
        """What is known of the cluster is out of date, or lacks *topic*."""
        self._metadata.want(topic)

    def trouble(self, gathered: Batch) -> KafkaError | None:
        """Why *gathered* is not confirmed yet, if something has failed. From any thread."""
        queue = self._queues.get((gathered.topic, gathered.partition))
        return None if queue is None else queue.trouble

    def workers(self) -> list[BlockingWorker]:
        """Those who wait for brokers: they end when the sender does. From any thread, once that has ended."""
        return [self._worker, *(broker.worker for broker in self._brokers.values())]

    # Partitions

    def _take_new_batches(self) -> None:
        """Take note of batches that users' threads have begun or filled."""
        begun, filled = self._accumulator.begun, self._accumulator.filled
        while begun:
            gathered = begun.popleft()
            self._used[gathered.topic] = gathered.created
            queue = self._queue_of(gathered)
            queue.add(gathered)
            self._look(queue)
        while filled:
            self._look(self._queue_of(filled.popleft()))

    def _queue_of(self, gathered: Batch) -> PartitionQueue:
        place = (gathered.topic, gathered.partition)
        queue = self._queues.get(place)
        if queue is None:
            queue = self._queues[place] = PartitionQueue(
                TopicPartition(*place),
                Sequences() if self._producer_id.enabled else None,
                linger=self._linger,
                patience=self._patience,
                max_in_flight=self._options.max_in_flight,
                seal=self._seal,
            )
        return queue

    def _look(self, queue: PartitionQueue) -> None:
        """See to *queue*: fail what is too old, put it in line if it has something to send."""
        now = time.monotonic()
        next_look = queue.next_look(now)
        if next_look <= now:
            self._responses.expire(queue, now)
            next_look = queue.next_look(now)
        if not queue.queued and queue.ready(now):
            self._route(queue)
        if next_look != queue.timer:
            self._thread.set_timer(queue, next_look, self._look)

    def _route(self, queue: PartitionQueue) -> None:
        """Put *queue*, which has something to send, in line at its leader, or note what it waits for."""
        if self._waiting_for_leader:
            self._waiting_for_leader.discard(queue)
        if self._waiting_for_producer_id:
            self._waiting_for_producer_id.discard(queue)
        leader = self._leader_of(queue)
        if leader is None:
            info = self._client.metadata.topics.get(queue.topic)
            code = info.error if info is not None else _NONE
            if code or queue.blocked_by is None:
                queue.blocked(broker_error(code or _LEADER_NOT_AVAILABLE, str(queue.at)))
            self.want_metadata()
            self._waiting_for_leader.add(queue)
            return
        if queue.must_wait_for(leader):
            return  # the answer brings it here again
        if not self._producer_id.provide(queue.sequences):
            self._waiting_for_producer_id.add(queue)
            return
        broker = self._brokers.get(leader)
        if broker is None:
            broker = self._brokers[leader] = BrokerQueue(
                leader, self._client, self._options, self._backoff, self._responses, self._calls
            )
        broker.enqueue(queue)
        self._to_fill.add(broker)

    def _leader_of(self, queue: PartitionQueue) -> int | None:
        node = self._client.metadata.leader(queue.at)
        return None if node is None else node.id

    def _seal(self, gathered: Batch) -> ProducerBatch:
        self._accumulator.appender.take(gathered)
        held = gathered.capacity
        batch = seal(gathered, self._codec)
        if not gathered.count:
            self._responses.settle(gathered, 0, 0, -1, -1, None)
        elif self._codec:
            self._accumulator.shrunk(gathered, held - len(batch.payload))
        return batch

    # News

    def _topics(self) -> set[str]:
        """Return the topics in use, and forget the others.

        A broker that has just started may not know one of them for a moment: new records then have to wait
        for it, and those under way still need its leader.
        """
        busy = {queue.topic for queue in self._queues.values() if queue.queued or not queue.idle}
        busy.update(gathered.topic for gathered in list(self._accumulator.begun))
        self._forget_idle(busy)
        return {*self._accumulator.appender.topics(), *busy}

    def _forget_idle(self, busy: set[str]) -> None:
        """Forget topics that are not *busy* and that nothing was sent to for ``metadata_max_idle_ms``."""
        now = time.monotonic()
        known = {*self._accumulator.appender.topics(), *self._client.metadata.topics, *self._used}
        last_used = {topic: self._used.setdefault(topic, now) for topic in known - busy}
        idle = {topic for topic, used in last_used.items() if now - used >= self._max_idle}
        if not idle:
            return
        for place in [place for place in self._queues if place[0] in idle]:
            self._producer_id.forget(self._queues.pop(place).sequences)
        for topic in idle:
            del self._used[topic]
            self._accumulator.forget(topic)
        self._client.forget_topics(idle)

    def _learned(self, metadata: Metadata | None, failure: KafkaError | None) -> None:
        """A question for metadata has been answered, or has failed."""
        appender = self._accumulator.appender
        for name, topic in metadata.topics.items() if metadata is not None else ():
            if topic.error == _UNKNOWN_TOPIC_OR_PARTITION:
                appender.forget(name)
            elif topic.partitions and appender.partition_count(name) != len(topic.partitions):
                appender.know(name, len(topic.partitions))
        for broker in self._brokers.values():
            broker.drop_moved()
            self._to_fill.add(broker)
        waiting, self._waiting_for_leader = self._waiting_for_leader, set()
        if metadata is not None:
            self._fail_what_is_gone(waiting, metadata)
        self._look_again(waiting, failure)

    def _fail_what_is_gone(self, waiting: set[PartitionQueue], metadata: Metadata) -> None:
        """Fail the records for topics that do not exist, where the producer closes and has waited for long
        enough. Of the topics of *waiting*, *metadata* is what a broker has just said."""
        now = time.monotonic()
        answers = {topic: metadata.topics.get(topic) for topic in {queue.topic for queue in waiting}}
        self._missing = {
            topic: self._missing.get(topic, now)
            for topic, info in answers.items()
            if info is not None and info.error == _UNKNOWN_TOPIC_OR_PARTITION
        }
        for queue in waiting if self._closing else ():
            if now - self._missing.get(queue.topic, now) >= _GONE_AFTER:
                self._responses.fail_all(queue, _gone(queue))

    def _identified(self, failure: KafkaError | None) -> None:
        """A question for a producer id has been answered, or has failed."""
        if not self._producer_id.enabled:
            for queue in self._queues.values():
                queue.without_idempotence()
        waiting, self._waiting_for_producer_id = self._waiting_for_producer_id, set()
        if failure is not None and not failure.retriable:
            for queue in waiting:
                self._responses.fail_all(queue, failure)
            failure = None
        self._look_again(waiting, failure)

    def _look_again(self, queues: set[PartitionQueue], failure: KafkaError | None) -> None:
        for queue in queues:
            self._look(queue)
            if failure is not None:
                queue.blocked(failure)

    def _give_up(self) -> None:
        self._time_is_up = True


def _gone(queue: PartitionQueue) -> KafkaError:
    return broker_error(
        _UNKNOWN_TOPIC_OR_PARTITION,
        f"{queue.at}: every answer of the brokers in the last {_GONE_AFTER:g} s said that topic "
        f"{queue.topic!r} does not exist, so closing does not wait for it any longer; was it deleted?",
    )


def _closed_before(queue: PartitionQueue, closed: KafkaError) -> KafkaError:
    """*closed*, with the last failure of *queue* if there is one."""
    trouble = queue.trouble
    if trouble is None:
        return closed
    error = ClosedError(f"{closed}; the last failure: {trouble}")
    error.__cause__ = trouble
    return error

"""A broker that stores what is produced, with Kafka's checks of sequences, and fails as the test says.

Like Kafka, it remembers the last five batches of each producer in each partition. It knows those when they
come again, and refuses older ones.
"""

import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pyklient.error_codes import ErrorCode
from pyklient.kernel import read_records
from pyklient.producer.producer import Producer
from pyklient.protocol.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.records import RecordBatch, iter_batches
from pyklient.protocol.schema import ApiMessage
from tests.net.scripted import SILENCE, Addressed, ScriptedBroker, metadata_of

__all__ = [
    "IN_ONE_BATCH",
    "ONE_BY_ONE",
    "TOPIC",
    "LoseAnswer",
    "ProduceBroker",
    "Refuse",
    "Seen",
    "identities",
    "numbers",
    "producing",
    "wait_until",
]

TOPIC: Final = "clicks"
ONE_BY_ONE: Final = {"batch_size": 0, "linger_ms": 0}
"""Options with which every record is sent by itself."""
IN_ONE_BATCH: Final = {"linger_ms": 60_000, "delivery_timeout_ms": 120_000}
"""Options with which the records of a partition wait for a flush in one batch."""

_REMEMBERED, _SEQUENCES = 5, 1 << 31

PartitionAnswer = ProduceResponse.TopicProduceResponse.PartitionProduceResponse


class Refuse(NamedTuple):
    """Answer with an error code, and store nothing."""

    code: int
    message: str | None = None


class LoseAnswer(NamedTuple):
    """Store the batch, but answer with an error code, or as a handler's token says."""

    instead: Any


class Seen(NamedTuple):
    """A batch as it arrived, stored or not."""

    partition: int
    producer_id: int
    epoch: int
    sequence: int
    values: list[bytes | None]
    batch: RecordBatch


class _Remembered(NamedTuple):
    """One of the last batches of a producer."""

    sequence: int
    records: int
    offset: int


@dataclass
class _State:
    """The state of a producer in one partition."""

    epoch: int
    expected: int
    batches: deque[_Remembered] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


Fault = Refuse | LoseAnswer | Callable[[ProduceRequest], Any] | None


class ProduceBroker(ScriptedBroker):
    """A broker that stores produced records. ``faults`` are applied to one Produce request each, None to
    none; later requests succeed.

    ``seen`` are all batches that arrived, ``stored`` the values by partition, in order. ``largest`` is the
    largest batch that it accepts; with ``old_format`` it accepts no batch with a producer id.
    """

    def __init__(self, partitions: int = 1, **options: Any) -> None:
        self.partitions = partitions
        self.known_topics: dict[str, int] = {TOPIC: 0}
        self.faults: deque[Fault] = deque()
        self.seen: list[Seen] = []
        self.stored: defaultdict[int, list[bytes | None]] = defaultdict(list)
        self.largest = 1 << 30
        self.old_format = False
        self.leaders: dict[int, int] = {}
        self.peers: list[ScriptedBroker | Addressed] = []
        self._producers: dict[tuple[int, int], _State] = {}
        self._producer_ids = iter(range(1000, 2000))
        super().__init__(**options)
        self.on(ProduceRequest, self._produce)
        self.on(MetadataRequest, self._metadata)
        self.on(
            InitProducerIdRequest,
            lambda _request: InitProducerIdResponse(producer_id=next(self._producer_ids), producer_epoch=0),
        )

    def producer(self, **options: Any) -> Producer:
        """Return a producer for this broker, with short pauses."""
        quick: dict[str, Any] = {
            "reconnect_backoff_ms": 10,
            "reconnect_backoff_max_ms": 50,
            "retry_backoff_ms": 10,
            "retry_backoff_max_ms": 50,
        }
        return Producer(self.address, **{**quick, **options})

    def _metadata(self, request: MetadataRequest) -> ApiMessage:
        names = [TOPIC] if request.topics is None else [topic.name or "" for topic in request.topics]
        return metadata_of([self, *self.peers], [self._topic(name) for name in names], self.node_id)

    def _topic(self, name: str) -> MetadataResponse.MetadataResponseTopic:
        error = self.known_topics.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=number, leader_id=self.leaders.get(number, self.node_id)
            )
            for number in range(self.partitions)
        ]
        return MetadataResponse.MetadataResponseTopic(
            name=name, error_code=error, partitions=[] if error else partitions
        )

    def _produce(self, request: ProduceRequest) -> Any:
        fault = self.faults.popleft() if self.faults else None
        if callable(fault) and not isinstance(fault, Refuse | LoseAnswer):
            fault = fault(request)
        topics = []
        for topic in request.topic_data:
            answers = [self._store(one.index, one.records, fault) for one in topic.partition_data]
            topics.append(ProduceResponse.TopicProduceResponse(name=topic.name, partition_responses=answers))
        if isinstance(fault, LoseAnswer) and not isinstance(fault.instead, int):
            return fault.instead
        return ProduceResponse(responses=topics) if request.acks else SILENCE

    def _store(self, partition: int, records: Any, fault: Fault) -> PartitionAnswer:
        batches = list(iter_batches(bytes(records)))
        answer = PartitionAnswer(index=partition, base_offset=-1)
        for batch in batches:
            batch.verify()
            values = [record.value for record in read_records(batch)]
            self.seen.append(
                Seen(partition, batch.producer_id, batch.producer_epoch, batch.base_sequence, values, batch)
            )
            if isinstance(fault, Refuse) and not (
                fault.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._remembered(partition, batch)
            ):
                answer.error_code, answer.error_message = fault
            elif self.old_format and batch.producer_id >= 0:
                answer.error_code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
            elif batch.size > self.largest:
                answer.error_code = ErrorCode.MESSAGE_TOO_LARGE
            else:
                self._append(answer, partition, batch, values)
        if isinstance(fault, LoseAnswer) and isinstance(fault.instead, int):
            answer.error_code = fault.instead
        return answer

    def _remembered(self, partition: int, batch: RecordBatch) -> _Remembered | None:
        """Return the remembered data of *batch* if it is one of the last batches of its producer."""
        state = self._producers.get((partition, batch.producer_id))
        if state is None or state.epoch != batch.producer_epoch:
            return None
        wanted = (batch.base_sequence, batch.count)
        return next((one for one in state.batches if (one.sequence, one.records) == wanted), None)

    def _append(
        self, answer: PartitionAnswer, partition: int, batch: RecordBatch, values: list[bytes | None]
    ) -> None:
        log = self.stored[partition]
        if batch.producer_id >= 0:
            if (before := self._remembered(partition, batch)) is not None:
                answer.base_offset = before.offset
                return
            # Like Kafka, it takes any number from a producer it does not know.
            unknown = _State(batch.producer_epoch, batch.base_sequence)
            state = self._producers.get((partition, batch.producer_id), unknown)
            if batch.producer_epoch < state.epoch:
                answer.error_code = ErrorCode.INVALID_PRODUCER_EPOCH
                return
            if batch.producer_epoch > state.epoch:
                state = _State(batch.producer_epoch, 0)
            if batch.base_sequence != state.expected:
                answer.error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
                return
            state.expected = (batch.base_sequence + batch.count) % _SEQUENCES
            state.batches.append(_Remembered(batch.base_sequence, batch.count, len(log)))
            self._producers[partition, batch.producer_id] = state
        if answer.base_offset < 0:
            answer.base_offset = len(log)
        log += values


@contextmanager
def producing(broker: ProduceBroker, **options: Any) -> Iterator[Producer]:
    """A producer that is always closed, without raising errors for failures that the test has not looked
    at."""
    others = set(threading.enumerate())
    producer = broker.producer(**options)
    try:
        yield producer
    finally:
        producer._close(0)
        left = set(threading.enumerate()) - others
        assert not [thread for thread in left if "pyklient-producer" in thread.name]


def numbers(count: int) -> list[bytes]:
    """Return *count* different values."""
    return [b"%d" % number for number in range(count)]


def identities(seen: list[Seen]) -> list[tuple[int, int, int]]:
    """Return the producer id, epoch and sequence number of batches."""
    return [(one.producer_id, one.epoch, one.sequence) for one in seen]


def wait_until(condition: Callable[[], bool], timeout: float = 30.0) -> None:
    """Return when *condition* is true. Fail after *timeout* seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.002)

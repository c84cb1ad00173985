"""A cluster whose brokers answer as a script says, and record what a classic producer asks of them."""

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any, Final, NamedTuple, Self, TypeAlias

from pyklient.kernel import read_records
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.records import iter_batches
from tests.net.scripted import HANG_UP, SILENCE, ScriptedBroker, metadata_of
from tests.servers.process import wait_until

__all__ = ["NOT_LEADER", "Message", "Produced", "Script", "ScriptedCluster"]

UNKNOWN_TOPIC: Final = 3
LEADER_NOT_AVAILABLE: Final = 5
NOT_LEADER: Final = 6

Leaders: TypeAlias = Mapping[str, Sequence[int]]
"""The leader of each partition of each topic: the id of a node, 0 for none. An empty topic is unknown."""

Answer: TypeAlias = str | Mapping[int, int]
"""The answer to a produce request: "ok", "hang up", "incomplete", or an error code for some partitions."""

Message: TypeAlias = tuple[str, str, str, str]
"""Topic, key, partition key and value. An empty key stands for None."""


class Produced(NamedTuple):
    """One partition of a produce request that has arrived."""

    partition: int
    codec: int
    records: tuple[tuple[bytes | None, bytes | None], ...]


@dataclass(frozen=True, kw_only=True)
class Script:
    """What a producer is told to send, and what the brokers answer. The last of *leaders*, and of *answers*,
    stands for all further requests."""

    name: str
    batches: Sequence[Sequence[Message]]
    properties: Mapping[str, str] = field(default_factory=dict)
    partitioner: str = "default"
    leaders: Sequence[Leaders] = ({"t": [1, 1]},)
    answers: Sequence[Answer] = ("ok",)
    renames_partitions: bool = False
    """True if the partitions are chosen at random: they are then numbered in the order of their first use."""


class ScriptedCluster:
    """The brokers 1 and 2 of *script*, which speak Kafka 0.8.2. A context manager."""

    def __init__(self, script: Script) -> None:
        self.events: list[Any] = []
        """The requests for metadata, as a tuple of topics; and the produce requests, as the node, the acks
        and a map from topics to what was produced."""
        self._script = script
        self._renamed: dict[tuple[str, int], int] = {}
        self._metadata_count = self._produce_count = 0
        versions = {each.api_key: (0, 0) for each in (ApiVersionsRequest, MetadataRequest, ProduceRequest)}
        self.nodes = [ScriptedBroker(node_id=number, versions=versions) for number in (1, 2)]
        for node in self.nodes:
            node.on(MetadataRequest, self._metadata)
            node.on(ProduceRequest, partial(self._produce, node.node_id))

    @property
    def address(self) -> str:
        """The address of broker 1."""
        return self.nodes[0].address

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.ExitStack() as closing:
            for node in self.nodes:
                closing.callback(node.close)

    def produced(self, count: int) -> list[Any]:
        """Wait until *count* produce requests have arrived, and return them all."""
        wait_until(lambda: len(self._produced_events()) >= count, 60, f"{count} produce requests")
        return self._produced_events()

    def _produced_events(self) -> list[Any]:
        return [event for event in list(self.events) if isinstance(event[0], int)]

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        names = sorted(topic.name or "" for topic in request.topics or ())
        self.events.append(tuple(names))
        leaders = self._script.leaders[min(self._metadata_count, len(self._script.leaders) - 1)]
        self._metadata_count += 1
        return metadata_of(self.nodes, [_topic(name, leaders.get(name, ())) for name in names])

    def _produce(self, node_id: int, request: ProduceRequest) -> Any:
        sent = {
            topic.name: tuple(
                sorted(self._produced(topic.name, each.index, each.records) for each in topic.partition_data)
            )
            for topic in request.topic_data
        }
        self.events.append((node_id, request.acks, sent))
        _await_next_millisecond()  # the age of metadata is counted in whole milliseconds
        answer = self._script.answers[min(self._produce_count, len(self._script.answers) - 1)]
        self._produce_count += 1
        if answer == "hang up":
            return HANG_UP
        if not request.acks:
            return SILENCE
        errors = {} if isinstance(answer, str) else answer
        topics = [
            ProduceResponse.TopicProduceResponse(
                name=topic.name,
                partition_responses=[
                    ProduceResponse.PartitionProduceResponse(
                        index=each.index, error_code=errors.get(each.index, 0), base_offset=7
                    )
                    for each in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
        return ProduceResponse(responses=topics[1:] if answer == "incomplete" else topics)

    def _produced(self, topic: str, partition: int, records: Any) -> Produced:
        if self._script.renames_partitions:
            partition = self._renamed.setdefault((topic, partition), len(self._renamed))
        found = []
        codec = 0
        for batch in iter_batches(records):
            batch.verify()
            codec = max(codec, batch.compression)
            found += [(record.key, record.value) for record in read_records(batch)]
        return Produced(partition, codec, tuple((_bytes(key), _bytes(value)) for key, value in found))


def _await_next_millisecond() -> None:
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= now:
        pass


def _bytes(data: Any) -> bytes | None:
    return None if data is None else bytes(data)


def _topic(name: str, leaders: Sequence[int]) -> MetadataResponse.MetadataResponseTopic:
    partitions = [
        MetadataResponse.MetadataResponsePartition(
            partition_index=index,
            leader_id=leader or -1,
            error_code=0 if leader else LEADER_NOT_AVAILABLE,
            replica_nodes=[1, 2],
            isr_nodes=[leader] if leader else [],
        )
        for index, leader in enumerate(leaders)
    ]
    error = 0 if leaders else UNKNOWN_TOPIC
    return MetadataResponse.MetadataResponseTopic(name=name, error_code=error, partitions=partitions)

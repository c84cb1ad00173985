"""A cluster of many brokers in one process, which costs the clients under test nothing.

    python -m tools.scaling.cluster '{"brokers": 50, "partitions": 100}'

The cluster has one topic. It forgets the records that it gets. When it is read, each partition has the same
records, which were encoded at the start. It keeps fetch sessions, so that requests of consumers are as small
as those to real brokers. The ports are printed on one line.
"""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from pyklient.kernel import encode_batch
from pyklient.protocol.framing import ServerFraming
from pyklient.protocol.messages import (
    REQUESTS,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FetchRequest,
    FetchResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.records import NewRecord
from pyklient.protocol.schema import ApiMessage
from tests.servers.ports import HOST

__all__ = ["TOPIC", "Layout"]

TOPIC: Final = "scaling"
_SERVED: Final = (
    *(ApiVersionsRequest, MetadataRequest, InitProducerIdRequest, ProduceRequest),
    *(FetchRequest, ListOffsetsRequest),
)
_PartitionData: TypeAlias = FetchResponse.FetchableTopicResponse.PartitionData
_TOPIC_ID: Final = bytes(15) + b"\1"


@dataclass(frozen=True)
class Layout:
    """The brokers and partitions of a cluster, and the records in it.

    The first ``filled`` partitions have ``batches`` batches of ``records`` records of ``size`` bytes. An
    answer has at most ``at_once`` batches of a partition. All brokers together accept ``rate`` bytes per
    second; 0 means as many as they can.
    """

    brokers: int = 1
    partitions: int = 1
    filled: int = 0
    batches: int = 0
    records: int = 1
    size: int = 20
    at_once: int = 1
    rate: float = 0.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    def leader(self, partition: int) -> int:
        """Return the id of the broker that leads *partition*."""
        return partition % self.brokers


@dataclass
class _Session:
    """The fetch session of one connection: the offset of each partition that has records."""

    offsets: dict[int, int] = field(default_factory=dict)
    open: bool = False


class _Cluster:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._ports: list[int] = []
        self._end = layout.batches * layout.records
        self._busy_until = 0.0
        batch = encode_batch([NewRecord(1_000, None, bytes(layout.size))] * layout.records)
        self._batch_size = len(batch)
        offsets = range(0, self._end, layout.records) if layout.filled else ()
        # The base offset is the only difference of the batches. The checksum does not cover it.
        self._log = memoryview(b"".join(offset.to_bytes(8, "big") + batch[8:] for offset in offsets))

    async def serve(self) -> None:
        servers = [
            await asyncio.start_server(self._converse, HOST, 0, limit=1 << 26)
            for _ in range(self._layout.brokers)
        ]
        self._ports = [server.sockets[0].getsockname()[1] for server in servers]
        print(json.dumps(self._ports), flush=True)
        await asyncio.gather(*(server.serve_forever() for server in servers))

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire, session = ServerFraming(), _Session()
        try:
            while True:
                head = await reader.readexactly(4)
                received = wire.receive(await reader.readexactly(int.from_bytes(head, "big")))
                answer = self._answer(received.message, session)
                if isinstance(received.message, FetchRequest) and not answer.responses:
                    await asyncio.sleep(received.message.max_wait_ms / 1000)
                if isinstance(received.message, ProduceRequest) and self._layout.rate:
                    await self._be_slow(int.from_bytes(head, "big"))
                writer.writelines(wire.send(received, answer))
                await writer.drain()
        except (EOFError, ConnectionError):
            writer.close()

    async def _be_slow(self, size: int) -> None:
        """Sleep as long as it takes to store *size* bytes."""
        now = time.monotonic()
        self._busy_until = max(self._busy_until, now) + size / self._layout.rate
        await asyncio.sleep(self._busy_until - now)

    def _answer(self, request: Any, session: _Session) -> Any:
        match request:
            case ApiVersionsRequest():
                return _versions()
            case MetadataRequest():
                return self._metadata()
            case InitProducerIdRequest():
                return InitProducerIdResponse(producer_id=1, producer_epoch=0)
            case ProduceRequest():
                return _stored(request)
            case ListOffsetsRequest():
                return self._offsets(request)
            case FetchRequest():
                return self._fetched(request, session)
        raise TypeError(f"this cluster does not answer {request!r}")

    def _metadata(self) -> ApiMessage:
        partitions = [
            MetadataResponse.MetadataResponsePartition(
                partition_index=number, leader_id=self._layout.leader(number)
            )
            for number in range(self._layout.partitions)
        ]
        topic = MetadataResponse.MetadataResponseTopic(name=TOPIC, topic_id=_TOPIC_ID, partitions=partitions)
        brokers = [
            MetadataResponse.MetadataResponseBroker(node_id=node_id, host=HOST, port=port)
            for node_id, port in enumerate(self._ports)
        ]
        return MetadataResponse(brokers=brokers, topics=[topic], controller_id=0)

    def _offsets(self, request: ListOffsetsRequest) -> ApiMessage:
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        topics = []
        for topic in request.topics:
            found = [
                kind.ListOffsetsPartitionResponse(partition_index=one.partition_index, offset=0)
                for one in topic.partitions
            ]
            topics.append(kind(name=topic.name, partitions=found))
        return ListOffsetsResponse(topics=topics)

    def _fetched(self, request: FetchRequest, session: _Session) -> FetchResponse:
        if request.session_epoch <= 0:
            session.offsets.clear()
        for forgotten in request.forgotten_topics_data:
            for number in forgotten.partitions:
                session.offsets.pop(number, None)
        for topic in request.topics:
            for one in topic.partitions:
                if one.partition < self._layout.filled and one.fetch_offset < self._end:
                    session.offsets[one.partition] = one.fetch_offset
                else:
                    session.offsets.pop(one.partition, None)
        parts = list(self._parts(session.offsets, request.max_bytes))
        topics = [FetchResponse.FetchableTopicResponse(topic=TOPIC, topic_id=_TOPIC_ID, partitions=parts)]
        return FetchResponse(session_id=1, responses=topics if parts else [])

    def _parts(self, offsets: dict[int, int], most: int) -> Iterator[_PartitionData]:
        """Yield the next batches of each partition in *offsets*, up to *most* bytes."""
        for number, offset in list(offsets.items()):
            start = offset // self._layout.records * self._batch_size
            part = self._log[start : start + self._layout.at_once * self._batch_size]
            most -= len(part)
            yield FetchResponse.PartitionData(
                partition_index=number, high_watermark=self._end, last_stable_offset=self._end, records=part
            )
            if most <= 0:
                return


def _versions() -> ApiMessage:
    keys = [
        ApiVersionsResponse.ApiVersion(api_key=kind.api_key, min_version=first, max_version=last)
        for kind in _SERVED
        for first, last in [REQUESTS[kind.api_key].versions]
    ]
    return ApiVersionsResponse(api_keys=keys)


def _stored(request: ProduceRequest) -> ApiMessage:
    kind = ProduceResponse.TopicProduceResponse
    return ProduceResponse(
        responses=[
            kind(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    kind.PartitionProduceResponse(index=one.index, base_offset=0)
                    for one in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


if __name__ == "__main__":
    asyncio.run(_Cluster(Layout(**json.loads(sys.argv[1]))).serve())

"""A client that sends one request at a time over a plain socket, without the package's network layer."""

import socket
from types import TracebackType
from typing import Protocol, Self, TypeVar

from pyklient.protocol.framing import ClientFraming
from pyklient.protocol.messages import (
    ListOffsetsRequest,
    ListOffsetsResponse,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.schema import ApiMessage

_M = TypeVar("_M", bound=ApiMessage)

DEADLINE = 20.0


class Listening(Protocol):
    """A broker in this process or in another one, which has a port."""

    @property
    def port(self) -> int: ...


class WireClient:
    """One connection to *broker*."""

    def __init__(self, broker: Listening, client_id: str = "tests") -> None:
        self.socket = socket.create_connection(("127.0.0.1", broker.port), timeout=DEADLINE)
        self._wire = ClientFraming(client_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.socket.close()

    def send(self, request: ApiMessage, version: int | None = None, *, expects_reply: bool = True) -> None:
        """Send *request*, by default in its newest version."""
        chosen = request.versions[1] if version is None else version
        self.socket.sendall(b"".join(self._wire.send(request, chosen, expects_reply=expects_reply)))

    def receive(self, kind: type[_M]) -> _M:
        """Return the next response, which must be a *kind*."""
        _, response = self._wire.receive(self.frame())
        assert isinstance(response, kind)
        return response

    def ask(self, request: ApiMessage, kind: type[_M], version: int | None = None) -> _M:
        """Send *request* and return the response."""
        self.send(request, version)
        return self.receive(kind)

    def frame(self) -> bytes:
        """Return the bytes of the next response, without their length."""
        return self.exactly(int.from_bytes(self.exactly(4), "big"))

    def exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the broker closed the connection")
            data += piece
        return data

    def closed(self) -> bool:
        """Wait until the broker has closed the connection."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def produce(
        self, topic: str, partition: int, records: Buffer, *, version: int = 12, acks: int = -1
    ) -> ProduceResponse.TopicProduceResponse.PartitionProduceResponse:
        """Produce *records*. Return the response for the one partition."""
        data = ProduceRequest.PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            acks=acks,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )
        response = self.ask(request, ProduceResponse, version)
        return response.responses[0].partition_responses[0]

    def offset_at(self, topic: str, partition: int, timestamp: int, version: int = 10) -> tuple[int, int]:
        """Return the (offset, timestamp) in the response of ListOffsets."""
        wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[wanted])]
        )
        answer = self.ask(request, ListOffsetsResponse, version).topics[0].partitions[0]
        assert answer.error_code == 0
        return answer.offset, answer.timestamp

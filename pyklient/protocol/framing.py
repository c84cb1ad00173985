"""Frames, headers and correlation ids of the requests and responses of one connection.

A frame begins with four bytes, which contain the number of bytes that follow. A broker answers the requests
of a connection in order, so a response always belongs to the oldest request that expects one.

ClientFraming and ServerFraming are not safe to use from several threads at once.
"""

import struct
from collections import deque
from dataclasses import dataclass
from functools import cache
from typing import Final

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerConnectionError, ProtocolError, UnsupportedVersionError
from pyklient.protocol.messages import (
    RESPONSE_TO,
    ApiVersionsResponse,
    MetadataRequest,
    ProduceRequest,
    RequestHeader,
    ResponseHeader,
)
from pyklient.protocol.primitives import Buffer, Reader, Writer, total_size
from pyklient.protocol.schema import ApiMessage

__all__ = ["ClientFraming", "MissingAnswerError", "ReceivedRequest", "ServerFraming", "frame_length"]

_LENGTH_SIZE: Final = 4
_CORRELATION_ID: Final = struct.Struct(">i")
_REQUEST_START: Final = struct.Struct(">ihhi")
"""The layout of the first bytes of a request: the length of its frame, and the fields with which every
version of the header starts."""
_RESPONSE_START: Final = struct.Struct(">ii")
"""The layout of the first bytes of a response: the length of its frame, and the correlation id."""
_API_VERSIONS: Final = ApiVersionsResponse.api_key
_LAST_CORRELATION_ID: Final = 0x7FFFFFFF


def frame_length(head: Buffer, max_frame: int) -> int:
    """Return the length of a frame. *head* has the frame's first four bytes, which contain the length.

    Raises ProtocolError if the length is negative or above *max_frame*. If the bytes look like another
    protocol, the error says which.
    """
    length = int.from_bytes(head[:_LENGTH_SIZE], "big", signed=True)
    if 0 <= length <= max_frame:
        return length
    start = bytes(head[:_LENGTH_SIZE])
    if start == b"HTTP":
        raise ProtocolError("the peer answers in HTTP: this is a web server's port, not a Kafka broker's")
    if start in (b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI"):
        raise ProtocolError("the peer speaks HTTP, not Kafka's protocol")
    if start[0] in (0x15, 0x16) and start[1] == 3:
        raise ProtocolError("the peer speaks TLS: check that security_protocol fits the listener's port")
    if length < 0:
        raise ProtocolError(f"a frame has the length {length}: the peer does not speak Kafka's protocol")
    raise ProtocolError(f"a frame has {length} bytes, but at most {max_frame} are allowed")


class MissingAnswerError(BrokerConnectionError):
    """The response to a later request arrived before the response to an earlier one. So some bytes of the
    connection were lost."""


class ClientFraming:
    """The client's side of a connection: encodes requests and decodes their responses."""

    def __init__(self, client_id: str | None) -> None:
        self._client_id = client_id
        self._starts: dict[int, bytes] = {}
        self._due: deque[tuple[int, type[ApiMessage], int]] = deque()
        self.last_correlation_id = -1
        self.last_size = 0
        """The size in bytes of the last request that was encoded, including the length of its frame."""

    def use_client_id(self, client_id: str | None) -> None:
        """Send *client_id* in the header of each request from now on."""
        if client_id != self._client_id:
            self._client_id = client_id
            self._starts.clear()

    @property
    def in_flight(self) -> int:
        """The number of requests that still expect a response."""
        return len(self._due)

    def send(self, request: ApiMessage, version: int, *, expects_reply: bool = True) -> list[Buffer]:
        """Return the frame of *request* as a list of buffers. If *expects_reply* is false (for ``acks=0``),
        no response is expected.

        Raises UnsupportedVersionError if *version* cannot carry a field of the request.
        """
        key, flexible = request.api_key, request.flexible
        header_version = 1 if flexible is None or version < flexible else 2
        start = self._starts.get(header_version) or self._start(header_version)
        parts, length = _frame(start, request, version)
        correlation_id = (
            0 if self.last_correlation_id >= _LAST_CORRELATION_ID else self.last_correlation_id + 1
        )
        _REQUEST_START.pack_into(parts[0], 0, length, key, version, correlation_id)
        self.last_correlation_id = correlation_id
        self.last_size = length + _LENGTH_SIZE
        if expects_reply:
            self._due.append((correlation_id, RESPONSE_TO[type(request)], version))
        return parts

    def _start(self, header_version: int) -> bytes:
        """Return the first bytes of each request whose header has *header_version*: the frame's length and
        the header. The values that differ between requests (:data:`_REQUEST_START`) are zero."""
        start = _start_of_frame(RequestHeader(client_id=self._client_id), header_version)
        self._starts[header_version] = start
        return start

    def receive(self, frame: Buffer) -> tuple[int, ApiMessage]:
        """Return the correlation id and the response in *frame*, a frame without its length.

        Raises MissingAnswerError if the response to an older request is missing: responses must come in the
        order of the requests. Raises ProtocolError if the frame cannot be parsed.
        """
        reader = Reader(frame)
        if reader.end < _CORRELATION_ID.size:
            raise ProtocolError(f"a response of {reader.end} bytes is too short for a header")
        (correlation_id,) = _CORRELATION_ID.unpack_from(reader.data)
        reader.pos = _CORRELATION_ID.size
        if not self._due:
            raise ProtocolError(
                f"a response with correlation id {correlation_id} arrived, but no request is waiting"
            )
        expected, response_class, version = self._due[0]
        if correlation_id != expected:
            message = f"the response has correlation id {correlation_id}, but {expected} is the next one due"
            if any(correlation_id == due for due, _, _ in self._due):
                raise MissingAnswerError(message)
            raise ProtocolError(message)
        self._due.popleft()
        if response_class.api_key == _API_VERSIONS:
            return correlation_id, _api_versions(reader, version)
        flexible = response_class.flexible
        if flexible is not None and version >= flexible:
            reader.skip_tagged_fields()
        response = response_class.read(reader, version)
        if reader.pos != reader.end:
            _expect_end(reader, response_class, version)
        return correlation_id, response


def _api_versions(reader: Reader, version: int) -> ApiMessage:
    """Read an ApiVersions response. The response may have another version than the request.

    The header of the response never has tagged fields. A broker that does not know the requested version
    answers with the error UNSUPPORTED_VERSION and a body in version 0 (KIP-511). The mock cluster of
    librdkafka sends this error with a body of another layout. Such a body is ignored: the returned response
    names no versions.
    """
    if int.from_bytes(reader.data[reader.pos : reader.pos + 2], "big") != ErrorCode.UNSUPPORTED_VERSION:
        return _whole(reader, version)
    try:
        return _whole(reader, 0)
    except ProtocolError:
        return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)


def _whole(reader: Reader, version: int) -> ApiVersionsResponse:
    response = ApiVersionsResponse.read(reader, version)
    _expect_end(reader, ApiVersionsResponse, version)
    return response


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request that a broker has received, and the values that are needed to answer it.

    ``message`` is None for an ApiVersions request of an unknown version. The broker answers such a
    request with the error UNSUPPORTED_VERSION and the versions that it knows (KIP-511).
    """

    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    message: ApiMessage | None

    @property
    def unsupported(self) -> bool:
        """True if this is an ApiVersions request of an unknown version."""
        return self.message is None

    @property
    def expects_reply(self) -> bool:
        """False if this is a Produce request with ``acks=0``, which gets no response."""
        return not (isinstance(self.message, ProduceRequest) and self.message.acks == 0)


class ServerFraming:
    """The broker's side of a connection: decodes requests and encodes responses."""

    def __init__(self) -> None:
        from pyklient.protocol.messages.by_api_key import (
            REQUESTS,  # and so all messages, which clients do not need
        )

        self._requests = REQUESTS

    def receive(self, frame: Buffer) -> ReceivedRequest:
        """Return the request in *frame*, a frame without its length.

        Raises ProtocolError for an unknown API key and for bytes that cannot be parsed, and
        UnsupportedVersionError for an unknown version.
        """
        reader = Reader(frame)
        key, version = reader.int16(), reader.int16()
        request_class = self._requests.get(key)
        if request_class is None:
            raise ProtocolError(f"a request has the unknown API key {key}")
        first, last = request_class.versions
        if not first <= version <= last:
            correlation_id = reader.int32()
            if key == _API_VERSIONS:
                return ReceivedRequest(key, version, correlation_id, None, None)
            raise UnsupportedVersionError(
                f"{request_class.__name__} has versions {first} to {last}, not {version}"
            )
        reader.pos = 0
        header = RequestHeader.read(reader, 2 if request_class.is_flexible(version) else 1)
        message = request_class.read(reader, version)
        if reader.pos != reader.end and not _has_librdkafkas_excess(message, reader.remaining):
            _expect_end(reader, request_class, version)
        return ReceivedRequest(key, version, header.correlation_id, header.client_id, message)

    def send(self, received: ReceivedRequest, response: ApiMessage) -> list[Buffer]:
        """Return the frame of *response* as a list of buffers. *received* is the request to answer."""
        version = 0 if received.unsupported else received.version
        flexible = response.is_flexible(version) and response.api_key != _API_VERSIONS
        parts, length = _frame(_response_start(flexible), response, version)
        _RESPONSE_START.pack_into(parts[0], 0, length, received.correlation_id)
        return parts


@cache
def _response_start(flexible: bool) -> bytes:
    """Return the first bytes of each response: the frame's length and the header, with zeros as values. If
    *flexible* is true, the header has tagged fields."""
    return _start_of_frame(ResponseHeader(), 1 if flexible else 0)


def _has_librdkafkas_excess(message: ApiMessage, remaining: int) -> bool:
    """Return True if the *remaining* bytes after *message* are the three excess bytes that librdkafka writes.

    librdkafka encodes a null list of topics in four bytes instead of one. Brokers accept that
    (confluentinc/librdkafka#5049).
    """
    return isinstance(message, MetadataRequest) and message.topics is None and remaining == 3


def _start_of_frame(header: ApiMessage, version: int) -> bytes:
    """Return four zero bytes, for the length of the frame, followed by the encoded *header*."""
    return b"".join([bytes(_LENGTH_SIZE), *header.encode(version)])


def _frame(start: bytes, body: ApiMessage, version: int) -> tuple[list[Buffer], int]:
    """Return the frame that consists of *start* and *body*, as a list of buffers. The first buffer is
    writable. Also return the length of the frame."""
    writer = Writer(start)
    body.write(writer, version)
    parts = writer.finish()
    return parts, total_size(parts) - _LENGTH_SIZE


def _expect_end(reader: Reader, cls: type[ApiMessage], version: int) -> None:
    if reader.pos != reader.end:
        raise ProtocolError(f"{cls.__name__} v{version} has {reader.remaining} bytes too many at its end")

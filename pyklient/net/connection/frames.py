"""Splits the bytes that a connection receives into responses. Before each response, the broker sends its
length."""

from typing import Final

from pyklient.errors import ProtocolError
from pyklient.net.connection.transport import Endpoint, PeerClosedError, TimeLeft, Transport
from pyklient.protocol.framing import frame_length

__all__ = ["FrameReader"]

_LENGTH_SIZE: Final = 4
_FIRST_READ: Final = 4096
"""The number of bytes to ask the socket for first. Most responses are smaller, except for those with
records."""


class FrameReader:
    """Reads responses of at most *max_response* bytes from a connection. Only one thread at a time may use
    it."""

    def __init__(self, endpoint: Endpoint, transport: Transport, max_response: int) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._max_response = max_response
        self._ahead = b""
        """The bytes that were received together with an earlier response, and belong to later responses."""

    def receive(self, time_left: TimeLeft) -> memoryview:
        """Return the next response. One system call may receive several small responses. A large response is
        in a buffer of its own, so that records can be slices of it."""
        try:
            while len(self._ahead) < _LENGTH_SIZE:
                self._ahead += self._transport.receive_some(_FIRST_READ, time_left)
            ahead = self._ahead
            size = int.from_bytes(ahead[:_LENGTH_SIZE], "big")
            if size > self._max_response:  # or negative
                self._raise_wrong_size(ahead)
            stop = _LENGTH_SIZE + size
            if len(ahead) < stop:
                frame = self._transport.receive(size, time_left, ahead[_LENGTH_SIZE:])
            else:
                frame = memoryview(ahead)[_LENGTH_SIZE:stop]
            self._ahead = ahead[stop:]
            return frame
        except PeerClosedError as error:
            if not self._ahead:
                raise
            message = f"{self._endpoint} closed the connection in the middle of a response"
            raise PeerClosedError(message) from error

    def _raise_wrong_size(self, head: bytes) -> None:
        """Raise a ProtocolError that tells why *head* is not the beginning of a response."""
        try:
            frame_length(head, self._max_response)
        except ProtocolError as error:
            if head[0] < 0x10:  # a length, and not the first letters of another protocol
                raise ProtocolError(
                    f"{error}; set receive_message_max_bytes to allow larger responses"
                ) from None
            raise

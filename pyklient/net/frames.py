"""Whole answers out of a stream of bytes: each is a length and so many bytes."""

from typing import Final

from pyklient.errors import ProtocolError
from pyklient.net.transport import Endpoint, Patience, PeerClosedError, Transport
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.wire import frame_length

__all__ = ["FrameReader"]

_LENGTH_SIZE: Final = 4
_SMALL_ANSWERS: Final = 4096
"""Bytes that ``receive_small`` asks for at once: most answers whole, with their length."""


class FrameReader:
    """Reads answers of *max_response* bytes at most. One thread at a time uses it."""

    def __init__(self, endpoint: Endpoint, transport: Transport, max_response: int) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._max_response = max_response
        self._ahead = b""
        """What has been read of answers that are not whole yet."""

    def receive(self, patience: Patience) -> memoryview:
        """Return the next answer in memory of its own, as answers that carry records should be. Call it only
        when ``receive_small`` has left nothing."""
        size = self._size(self._transport.receive(_LENGTH_SIZE, patience))
        return self._transport.receive(size, patience)

    def receive_small(self, patience: Patience) -> memoryview:
        """Return the next answer; small ones take one trip to the system, or share it."""
        try:
            while True:
                ahead = self._ahead
                have = len(ahead)
                if have >= _LENGTH_SIZE:
                    stop = _LENGTH_SIZE + self._size(ahead)
                    if have < stop:
                        ahead += self._transport.receive(stop - have, patience)
                    self._ahead = ahead[stop:]
                    return memoryview(ahead)[_LENGTH_SIZE:stop]
                self._ahead += self._transport.receive_some(_SMALL_ANSWERS, patience)
        except PeerClosedError as error:
            if not self._ahead:
                raise
            message = f"{self._endpoint} closed the connection in the middle of an answer"
            raise PeerClosedError(message) from error

    def _size(self, head: Buffer) -> int:
        try:
            return frame_length(head, self._max_response)
        except ProtocolError as error:
            if head[0] < 0x10:  # a length, not the first letters of another protocol
                raise ProtocolError(f"{error}; that limit is receive_message_max_bytes") from None
            raise

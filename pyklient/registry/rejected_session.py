"""Detects that no ZooKeeper server will accept an existing session again, although servers are running.

A server that has lost its data, or has older data, closes the connection of a client that has seen newer
data. The server gives no reason, and the client would try again forever. But the server accepts new sessions.
"""

import socket
import struct
import time
from contextlib import suppress
from typing import Final

__all__ = ["RejectedSession"]

_CONNECT: Final = struct.Struct(">iqiqi16s?")
"""The layout of a request to connect a session: protocol version, last change seen, time-out, session id,
password, read-only."""
_CONNECTED: Final = struct.Struct(">iiq")
"""The layout of the beginning of the answer to a connect request: protocol version, time-out, session id."""
_CLOSE: Final = struct.pack(">iii", 8, 1, -11)
"""The bytes of a request that ends the session, including its length."""
_LENGTH: Final = struct.Struct(">i")
_LONGEST: Final = 1024


class RejectedSession:
    """Decides when to give up a session that has a time-out of *session_timeout* seconds.

    A session is given up if two things are true. For longer than the time-out, servers have accepted
    connections but not the session. A server has then accepted a new session, but the next attempt with the
    existing session has failed.
    """

    def __init__(self, session_timeout: float) -> None:
        self._session_timeout = session_timeout
        self._exists = False
        self._since: float | None = None
        self._accepts_new = False
        self._tried_again = False
        self.given_up = False
        """True if the session was given up and no new session has begun yet."""

    def accepted(self) -> None:
        """Remember that a server has accepted the session."""
        self.ended()
        self._exists, self.given_up = True, False

    def ended(self) -> None:
        """Remember that the session has ended."""
        self._exists, self._since, self._accepts_new, self._tried_again = False, None, False, False

    @property
    def session_exists(self) -> bool:
        """True while there is a session that a server has accepted."""
        return self._exists

    def is_over(self, connected: socket.socket) -> bool:
        """Return True if the session must be given up. *connected* is a new connection to a server.

        The result is False if no session exists, and until the session time-out has passed since the first
        call for a session. After that, the calls do these steps, until a server accepts the session:

        1. Each call asks a server over *connected* for a new session, and raises ConnectionError, because
           *connected* cannot be used any more. This step ends when a server grants a new session.
        2. The next call returns False, so that the caller tries the existing session once more.
        3. The call after that returns True.
        """
        if not self._exists:
            return False
        if self._accepts_new:
            # The server may have been starting before it accepted a new session. The caller now tries the
            # existing session once more.
            self.given_up = self._tried_again
            self._tried_again = True
            return self.given_up
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since < self._session_timeout:
            return False
        self._accepts_new = _accepts_new_session(connected, self._session_timeout)
        raise ConnectionError(
            "the ZooKeeper server accepts new sessions, but not the existing session"
            if self._accepts_new
            else "the ZooKeeper server accepts connections, but does not begin a session"
        )


def _accepts_new_session(connected: socket.socket, timeout: float) -> bool:
    """Ask the server for a new session over the connection *connected*, and end the new session at once.
    Return False if the server does not grant one within *timeout* seconds."""
    request = _CONNECT.pack(0, 0, int(timeout * 1000), 0, 16, bytes(16), False)
    try:
        connected.settimeout(timeout)
        connected.sendall(_LENGTH.pack(len(request)) + request)
        (length,) = _LENGTH.unpack(_exactly(connected, _LENGTH.size))
        if not _CONNECTED.size <= length <= _LONGEST:
            return False
        _, granted, _ = _CONNECTED.unpack_from(_exactly(connected, length))
    except OSError:
        return False
    with suppress(OSError):
        connected.sendall(_CLOSE)
    return bool(granted > 0)


def _exactly(connected: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connected.recv(count - len(received))
        if not part:
            raise ConnectionError("the ZooKeeper server has closed the connection")
        received += part
    return received

"""Sends bytes to one peer and receives bytes from it, over a blocking TCP socket.

Time-outs are set on the socket (SO_RCVTIMEO, SO_SNDTIMEO). ``settimeout`` would make the socket non-blocking,
and sending or receiving a megabyte would then release and acquire the GIL several times. With a blocking
socket, a whole response is one ``recv`` with MSG_WAITALL, and a whole request is one ``sendmsg`` over its
parts, without copying them.

Each call has an argument *time_left*: a function that returns how long the next wait may be, and raises an
error when no time is left.
"""

import contextlib
import errno
import math
import os
import select
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from pyklient.config.host_and_port import host_and_port
from pyklient.errors import BrokerConnectionError, KafkaError, UnreachableError
from pyklient.kernel import memory
from pyklient.net.connection.resolver import Address, SlowLookupError, resolve
from pyklient.protocol.primitives import Buffer

__all__ = [
    "TICK",
    "UNKNOWN_NODE",
    "Deadline",
    "Endpoint",
    "TimeLeft",
    "PeerClosedError",
    "TcpTransport",
    "Transport",
    "connect",
]

TimeLeft = Callable[[], float]
"""A function that returns how many seconds the next wait may last, and raises a KafkaError if no time is
left."""

TICK = 0.5
"""The longest single wait, in seconds. It bounds the time until a waiting call notices that it was
cancelled."""

UNKNOWN_NODE: Final = -1
"""The node id of a broker that a client uses by its address alone."""

_WAITALL: int = getattr(socket, "MSG_WAITALL", 0)
_DONTWAIT: int = getattr(socket, "MSG_DONTWAIT", 0)
_HAS_SENDMSG = hasattr(socket.socket, "sendmsg")
_IOV_MAX = 1024  # Linux and macOS: sendmsg refuses more buffers than this


class PeerClosedError(BrokerConnectionError):
    """The broker or other peer has closed the connection."""


class Endpoint(NamedTuple):
    """The node id and the address of a broker.

    The real node ids of bootstrap servers are not known yet, so the first of them has the ``node_id`` -2, the
    second -3, and so on. A broker that a client uses by its address alone has the ``node_id`` -1.
    """

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> str:
        """The address as ``host:port``, with brackets around an IPv6 address."""
        return host_and_port(self.host, self.port)

    def __str__(self) -> str:
        if self.node_id == UNKNOWN_NODE:
            return f"the broker at {self.address}"
        if self.node_id < 0:
            return f"bootstrap server {self.address}"
        return f"broker {self.node_id} at {self.address}"


class Deadline:
    """A TimeLeft function that raises an error once *seconds* seconds have passed.

    *expired* returns this error. *cancelled* returns None, or an error if the call should stop earlier, for
    instance because the client is being closed.
    """

    def __init__(
        self,
        seconds: float,
        expired: Callable[[], KafkaError],
        cancelled: Callable[[], KafkaError | None] = lambda: None,
    ) -> None:
        self._at = time.monotonic() + seconds
        self._expired = expired
        self._cancelled = cancelled

    def remaining(self) -> float:
        """Return the seconds until the deadline. Raises an error if the time is over or the call was
        cancelled."""
        return self(math.inf)

    def __call__(self, longest: float = TICK) -> float:
        if (error := self._cancelled()) is not None:
            raise error
        left = self._at - time.monotonic()
        if left <= 0:
            raise self._expired()
        return min(left, longest)


class Transport(Protocol):
    """Sends and receives the bytes of a connection, with or without encryption.

    One thread at a time may send, and one thread at a time may receive. Both may run at the same time.
    """

    def send(self, parts: Sequence[Buffer], time_left: TimeLeft) -> None:
        """Send all *parts* in order. Raises BrokerConnectionError, or the error of *time_left*."""

    def send_at_once(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        """Send as much of *parts* as possible without waiting, and return the remainder. Raises
        BrokerConnectionError."""

    def receive(self, size: int, time_left: TimeLeft, head: bytes = b"") -> memoryview:
        """Return exactly *size* bytes, in new memory. They begin with *head*, which was received before.
        Raises PeerClosedError at the end of the stream."""

    def receive_some(self, limit: int, time_left: TimeLeft) -> bytes:
        """Return the bytes that have arrived, at least one and at most *limit*. Waits if there are none.

        Raises PeerClosedError at the end of the stream.
        """

    def is_quiet(self) -> bool:
        """Return True if there is nothing to read, and the peer has not closed the connection."""

    def abort(self) -> None:
        """Wake each thread that waits in a method of this object; the method then raises
        BrokerConnectionError."""

    def close(self) -> None:
        """Close the socket, without a message to the peer. No thread may be in a method of this object."""


class TcpTransport:
    """A connected TCP socket that sends and receives bytes without encryption.

    On systems without ``sendmsg`` or MSG_WAITALL, it makes more and smaller system calls.
    """

    def __init__(
        self, sock: socket.socket, peer: str, *, gather: bool = _HAS_SENDMSG, receive_flags: int = _WAITALL
    ) -> None:
        self._socket = sock
        self._peer = peer
        self._gather = gather
        self._receive_flags = receive_flags
        self._longest_send = self._longest_receive = math.inf
        """The time-outs that are set on the socket, in seconds: ``_longest_send`` for sending, and
        ``_longest_receive`` for receiving."""
        sock.setblocking(True)

    def send(self, parts: Sequence[Buffer], time_left: TimeLeft) -> None:
        waiting: Sequence[Buffer] = parts if self._gather else [b"".join(parts)]
        while waiting:
            if (seconds := time_left()) != self._longest_send:
                self._set_timeout(socket.SO_SNDTIMEO, seconds)
                self._longest_send = seconds
            try:
                if self._gather:
                    sent = self._socket.sendmsg(waiting[:_IOV_MAX])
                else:
                    sent = self._socket.send(waiting[0])
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken(error) from error
            waiting = _unsent(waiting, sent)

    def send_at_once(self, parts: Sequence[Buffer]) -> Sequence[Buffer]:
        if not (self._gather and _DONTWAIT):
            return parts
        try:
            sent = self._socket.sendmsg(parts[:_IOV_MAX], (), _DONTWAIT)
        except BlockingIOError:
            return parts
        except OSError as error:
            raise self._broken(error) from error
        return _unsent(parts, sent)

    def receive(self, size: int, time_left: TimeLeft, head: bytes = b"") -> memoryview:
        # The system provides a page when it is first written to: a large length alone takes no memory.
        whole = memory(size)
        have = len(head)
        whole[:have] = head
        while have < size:
            if (seconds := time_left()) != self._longest_receive:
                self._set_timeout(socket.SO_RCVTIMEO, seconds)
                self._longest_receive = seconds
            try:
                count = self._socket.recv_into(whole[have:], 0, self._receive_flags)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken(error) from error
            if not count:
                where = " in the middle of a response" if have else ""
                raise PeerClosedError(f"{self._peer} closed the connection{where}")
            have += count
        return whole

    def receive_some(self, limit: int, time_left: TimeLeft) -> bytes:
        while True:
            if (seconds := time_left()) != self._longest_receive:
                self._set_timeout(socket.SO_RCVTIMEO, seconds)
                self._longest_receive = seconds
            try:
                data = self._socket.recv(limit)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._broken(error) from error
            if not data:
                raise PeerClosedError(f"{self._peer} closed the connection")
            return data

    def is_quiet(self) -> bool:
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()

    def _set_timeout(self, option: int, seconds: float) -> None:
        micros = max(int(seconds * 1e6), 1000)  # 0 would mean: for ever
        try:
            self._socket.setsockopt(
                socket.SOL_SOCKET, option, struct.pack("ll", micros // 1_000_000, micros % 1_000_000)
            )
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> BrokerConnectionError:
        return BrokerConnectionError(f"the connection to {self._peer} failed: {error.strerror or error}")


def _unsent(parts: Sequence[Buffer], sent: int) -> Sequence[Buffer]:
    """Return the bytes of *parts* that remain when *sent* bytes have been sent, without copying them."""
    if sent == sum(map(len, parts)):
        return ()
    for index, part in enumerate(parts):
        if sent < len(part):
            return [memoryview(part)[sent:], *parts[index + 1 :]]
        sent -= len(part)
    return ()


def connect(
    endpoint: Endpoint, deadline: Deadline, *, send_buffer: int = -1, receive_buffer: int = -1
) -> socket.socket:
    """Return a socket that is connected to *endpoint*.

    Tries all addresses of the host name in turn, and divides the time equally among them. Raises
    UnreachableError, which names the failure of each address.
    """
    failures: list[_Failure] = []
    addresses = _resolve(endpoint, deadline)
    for index, (family, kind, protocol, address) in enumerate(addresses):
        try:
            sock = socket.socket(family, kind, protocol)
        except OSError as error:
            failures.append(_failure(endpoint, address, error))
            continue
        try:
            _set_buffers(sock, send_buffer, receive_buffer)
            _connect_within(sock, address, deadline, deadline.remaining() / (len(addresses) - index))
        except OSError as error:
            sock.close()
            if isinstance(error, KafkaError):
                raise
            failures.append(_failure(endpoint, address, error))
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise UnreachableError(
        f"cannot connect to {endpoint}: " + "; ".join(dict.fromkeys(failure.text for failure in failures)),
        "; ".join(dict.fromkeys(failure.cause for failure in failures)),
        nobody_there=all(failure.refused for failure in failures),
    )


def _resolve(endpoint: Endpoint, deadline: Deadline) -> list[Address]:
    try:
        return resolve(endpoint.host, endpoint.port, deadline, deadline.remaining())
    except SlowLookupError as error:
        cause = f"no address for the host name {endpoint.host!r}: {error}"
        advice = "check that this machine can reach its name server"
        raise UnreachableError(f"cannot connect to {endpoint}: {cause}; {advice}", cause) from error
    except KafkaError:
        raise
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a host name"
        cause = f"no address for the host name {endpoint.host!r} ({reason})"
        advice = "check its spelling, and that this machine can resolve it"
        raise UnreachableError(
            f"cannot connect to {endpoint}: {cause}; {advice}",
            cause,
            nobody_there=not isinstance(error, OSError) or error.errno == socket.EAI_NONAME,
        ) from error


def _set_buffers(sock: socket.socket, send_buffer: int, receive_buffer: int) -> None:
    if send_buffer >= 0:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    if receive_buffer >= 0:
        # Set before connecting, because the first packet negotiates the window scale.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _connect_within(
    sock: socket.socket, address: tuple[object, ...], deadline: Deadline, share: float
) -> None:
    """Connect *sock* to *address* within *share* seconds, and before *deadline*. Raises OSError."""
    sock.setblocking(False)
    code = sock.connect_ex(address)
    if code in (errno.EINPROGRESS, errno.EWOULDBLOCK, errno.EINTR):
        give_up = time.monotonic() + share
        poll = select.poll()
        poll.register(sock, select.POLLOUT)
        while not poll.poll(1000 * min(deadline(), max(give_up - time.monotonic(), 0.001))):
            if time.monotonic() >= give_up:
                raise TimeoutError(errno.ETIMEDOUT, f"the host did not answer within {share:.1f} s")
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))


class _Failure(NamedTuple):
    """The failure to connect to one address of an endpoint.

    *text* describes the failure for a message that already names the endpoint. *cause* also names the
    address. *refused* is true if the address refused the connection.
    """

    text: str
    cause: str
    refused: bool


def _failure(endpoint: Endpoint, address: tuple[object, ...], error: OSError) -> _Failure:
    at = Endpoint(endpoint.node_id, str(address[0]), endpoint.port).address
    where = "" if address[0] == endpoint.host else f"{address[0]}: "
    if error.errno == errno.ECONNREFUSED:
        text = (
            f"{where}connection refused; check that the broker is running and listens on port {endpoint.port}"
        )
        return _Failure(text, f"connection refused by {at}", True)
    said = error.strerror or str(error)
    hint = "; check the address, and that no firewall blocks it" if isinstance(error, TimeoutError) else ""
    return _Failure(f"{where}{said}{hint}", f"{at}: {said}", False)

"""The threads, the socket and the log messages of the library kazoo, adapted for the class ``ZooKeeper``."""

import logging
import math
import socket
import ssl
import threading
import time
from collections.abc import Callable
from copy import copy
from typing import Any, Final

from kazoo.exceptions import SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler

from pyklient.registry.rejected_session import RejectedSession

__all__ = ["KazooLog", "KazooThreads"]

_log = logging.getLogger("pyklient")

_SLOW_SECONDS: Final = 2.0
_ATTEMPTS: Final = 2
"""The least number of attempts to connect again that fit into the time-out of a session."""


class KazooThreads(SequentialThreadingHandler):
    """Starts the three threads of a session, and stores its socket.

    One thread reads and writes the connection, one calls functions after changes of watched nodes, and one
    completes the answers to requests. The socket is stored so that ``cut`` can shut it down. Then no thread
    waits for a server that does not respond.
    """

    def __init__(self, tls: ssl.SSLContext | None, session_timeout: float) -> None:
        super().__init__()
        self._tls = tls
        self._longest_attempt = session_timeout / _ATTEMPTS
        self._connects_again = False
        self.rejected = RejectedSession(session_timeout)
        self.last_failure: OSError | None = None
        self._slow_after = math.inf
        self._socket: socket.socket | None = None
        self._cut = False
        self._started: list[threading.Thread] = []

    def spawn(self, func: Callable[..., object], *args: object, **kwargs: object) -> threading.Thread:
        """Start a thread that calls *func*."""
        thread = threading.Thread(
            target=func, args=args, kwargs=kwargs, name="pyklient-zookeeper", daemon=True
        )
        thread.start()
        if not self._started:
            self._slow_after = time.monotonic() + _SLOW_SECONDS
        self._started = [*(each for each in self._started if each.is_alive()), thread]
        return thread

    @property
    def why_not_connected(self) -> str:
        """The reason why the last attempt to connect failed, for an error message."""
        if isinstance(self.last_failure, socket.gaierror):
            return f"no address for the name of its host: {self.last_failure.strerror}"
        return str(self.last_failure or "it does not answer")

    def connected(self) -> None:
        """Remember that a server has accepted the session. ``warn_if_slow`` then logs no warning."""
        self._slow_after = math.inf
        self._connects_again = False
        self.rejected.accepted()

    def warn_if_slow(self, server: object) -> None:
        """Log one warning if no server has accepted the session within two seconds after the start.
        *server* is the address for the message."""
        if time.monotonic() > self._slow_after:
            self._slow_after = math.inf
            _log.warning("%s cannot be reached (%s); still trying", server, self.why_not_connected)

    @property
    def runs_here(self) -> bool:
        """True if the calling thread is one of the session's threads."""
        return threading.current_thread() in self._started

    @property
    def alive(self) -> bool:
        """True while the connection thread of the session runs. False before this thread is started and after
        it has ended."""
        return bool(self._started) and self._started[-1].is_alive()

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_options: object
    ) -> socket.socket:
        """Connect to a server, with TLS if the session has a TLS context, and return the socket. kazoo calls
        this method.

        Raises kazoo's SessionExpiredError if no server will ever accept the session again.
        """
        connected: socket.socket | None = None
        self._connects_again = self.rejected.session_exists
        try:
            connected = socket.create_connection(address, self._attempt_timeout(timeout))
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls is not None:
                connected = self._tls.wrap_socket(connected, server_hostname=hostname)
            self.last_failure = ConnectionError(
                "the ZooKeeper server accepts connections, but does not begin a session"
            )
            if self.rejected.is_over(connected):
                connected.close()
                raise SessionExpiredError(
                    "the ZooKeeper servers accept a new session, but not the existing one, which has "
                    "probably expired"
                )
        except OSError as error:
            if connected is not None:
                connected.close()
            self.last_failure = copy(error)  # without the traceback, which would keep the socket
            raise
        self._socket = connected
        if self._cut:
            self.cut()
        return connected

    def select(self, reads: Any, writes: Any, errors: Any, timeout: float | None = None) -> Any:
        """Wait until one of the sockets is ready, as ``select.select`` does. kazoo calls this method."""
        return super().select(reads, writes, errors, self._attempt_timeout(timeout))

    def _attempt_timeout(self, timeout: float | None) -> float | None:
        """Return *timeout*, the seconds for which kazoo wants to wait for a server, or a lower limit.

        The limit applies while kazoo connects an existing session again. A server that is starting may accept
        a connection and never answer. kazoo must then try another server before the session expires.
        """
        if not self._connects_again:
            return timeout
        return self._longest_attempt if timeout is None else min(timeout, self._longest_attempt)

    def cut(self) -> None:
        """Shut down the connection, so that no thread waits for the server any longer."""
        self._cut = True
        if self._socket is not None:
            try:
                self._socket.shutdown(socket.SHUT_RDWR)
            except OSError:  # it is closed already
                return

    def abandon(self) -> None:
        """Close the socket in a child process after a fork, without a message to the server."""
        if self._socket is not None:
            self._socket.close()


class KazooLog(logging.LoggerAdapter[logging.Logger]):
    """Passes kazoo's log messages on: errors at their own level, all others at the level DEBUG.

    kazoo logs a warning for each failed attempt to connect. The class ``ZooKeeper`` logs only one in all. If
    a host name cannot be resolved, the error is stored in *threads* for that warning.
    """

    def __init__(self, logger: logging.Logger, threads: KazooThreads) -> None:
        super().__init__(logger, {})
        self._threads = threads

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Log *msg*. If *args* contain an error that a host name cannot be resolved, store this error."""
        for each in args:
            if isinstance(each, socket.gaierror):
                self._threads.last_failure = copy(each)
        super().log(level if level >= logging.ERROR else min(level, logging.DEBUG), msg, *args, **kwargs)

    warn = logging.LoggerAdapter.warning

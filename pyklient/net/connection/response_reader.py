"""The receiving part of a connection: a reader thread, or the thread that has sent a request."""

import logging
import threading
from collections.abc import Sequence
from threading import Lock

from pyklient.errors import KafkaError, KafkaTimeoutError, ProtocolError
from pyklient.net.connection.frames import FrameReader
from pyklient.net.connection.locks import new_turn_lock
from pyklient.net.connection.requests_in_flight import RequestsInFlight
from pyklient.net.connection.transport import Endpoint, TimeLeft, Transport

__all__ = ["ResponseReader"]

log = logging.getLogger("pyklient.net")

_CLOSE_TIMEOUT = 5.0
_LONGEST_LOCK_WAIT = threading.TIMEOUT_MAX


class ResponseReader:
    """Receives the responses of a connection, and gives each response to the function that waits for it.

    The reader thread reads the socket. Before it is started, the thread that holds ``turn`` reads the socket.
    Only the thread that holds the lock *sending* closes the socket.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        transport: Transport,
        in_flight: RequestsInFlight,
        sending: Lock,
        max_response: int,
    ) -> None:
        self._endpoint = endpoint
        self._transport = transport
        self._in_flight = in_flight
        self._sending = sending
        self._frames = FrameReader(endpoint, transport, max_response)
        self.turn = new_turn_lock()
        """The lock of the thread that sends a request and receives its response itself, or that starts the
        reader thread."""
        self.thread: threading.Thread | None = None
        """The reader thread. None until it is started."""

    def start(self, seconds: float) -> bool:
        """Start the reader thread unless it runs already. Return False if no thread can be started. Raises
        KafkaTimeoutError if ``turn`` cannot be acquired within *seconds*."""
        self.acquire_turn(seconds)
        try:
            if self.thread is None:
                name = f"pyklient-reader-{self._endpoint.node_id}"
                reader = threading.Thread(target=self.read, name=name, daemon=True)
                reader.start()
                self.thread = reader
        except RuntimeError as error:
            log.info(
                "cannot start the reader thread for %s (%s); instead, each thread that sends a request also "
                "receives the response",
                self._endpoint,
                error,
            )
            return False
        finally:
            self.turn.release()
        return True

    def acquire_turn(self, seconds: float) -> None:
        """Acquire ``turn``. Raise KafkaTimeoutError after *seconds* seconds."""
        if not self.turn.acquire(timeout=min(seconds, _LONGEST_LOCK_WAIT)):
            raise KafkaTimeoutError(
                f"{self._endpoint} did not answer an earlier request within {seconds:.3g} s"
            )

    def receive(self, time_left: TimeLeft) -> memoryview:
        """Return the next response. The caller must hold ``turn``, and there must be no reader thread."""
        return self._frames.receive(time_left)

    def read(self, outcome: Sequence[object] = ()) -> None:
        """Read responses until the connection ends, and give each response to the function that waits for it.

        Runs in the reader thread. If there is no reader thread, a thread that sends a request calls this
        method. It passes *outcome*, a list to which the response to its request is added. Then the method
        returns as soon as *outcome* is not empty.
        """
        try:
            while not outcome:
                self._read_one()
        except KafkaError as error:
            self._in_flight.fail(error)
            self.dispose()
        except Exception as error:
            log.exception("a response from broker %s could not be read", self._endpoint)
            self._in_flight.fail(
                ProtocolError(f"a response from {self._endpoint} could not be read: {error}")
            )
            self.dispose()

    def _read_one(self) -> None:
        """Read the next response and give it to the function that waits for it."""
        answered, response = self._in_flight.receive(self._frames.receive(self._in_flight.time_left))
        answered(response, None)

    def has_been_left(self) -> bool:
        """Return True if the broker has closed this connection while the client did not use it.

        A reader thread would notice this at once. Without a reader thread, the next request would be sent on
        a closed connection, and fail.
        """
        if self.thread is not None or not self.turn.acquire(blocking=False):
            return False
        try:
            return self._in_flight.failure is not None or not self._transport.is_quiet()
        finally:
            self.turn.release()

    def end(self) -> None:
        """Wait for the end of the reader thread, and close the socket. The requests in flight must have
        failed before this call. In the reader thread itself, this does nothing, because that thread closes
        the socket when it ends."""
        if self.thread is threading.current_thread():
            return
        # The thread that starts the reader holds the turn until the reader runs.
        taken = self.turn.acquire(timeout=_CLOSE_TIMEOUT)
        try:
            reader = self.thread
            if reader is not None and reader.ident is not None:
                reader.join(_CLOSE_TIMEOUT)
            if taken:
                self.dispose()
        finally:
            if taken:
                self.turn.release()

    def dispose(self) -> None:
        """Wait until no other thread writes to the socket, and close it."""
        if self._sending.acquire(timeout=_CLOSE_TIMEOUT):
            try:
                self._transport.close()
            finally:
                self._sending.release()

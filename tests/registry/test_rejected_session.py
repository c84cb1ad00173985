"""When a session is given up that no server accepts."""

import socket
import struct
import threading
import time

import pytest

from pyklient.registry.rejected_session import RejectedSession
from tests.servers.process import wait_until


def attempt(rejected: RejectedSession, answer: bytes) -> bool:
    """Connect to a server that gives *answer* to any request and then closes the connection."""
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            if theirs.recv(1000):
                theirs.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        return rejected.is_over(ours)
    finally:
        ours.close()
        thread.join(10)


def session(timeout_ms: int) -> bytes:
    """Return the answer of a server that begins a session with this time-out, as Kafka's ZooKeeper does."""
    return struct.pack(">iiiqi16s?", 37, 0, timeout_ms, 7, 16, bytes(16), False)


def rejected_session() -> RejectedSession:
    rejected = RejectedSession(session_timeout=0.05)
    rejected.accepted()
    began = time.monotonic()
    assert not attempt(rejected, b"")  # the session time-out begins
    wait_until(lambda: time.monotonic() > began + 0.05, 10, "the end of the session time-out")
    return rejected


def test_a_session_is_given_up_if_only_new_ones_are_accepted() -> None:
    rejected = rejected_session()
    with pytest.raises(
        ConnectionError, match="the ZooKeeper server accepts new sessions, but not the existing session"
    ):
        attempt(rejected, session(1000))
    assert attempt(rejected, b"")
    assert rejected.given_up
    rejected.accepted()
    assert not rejected.given_up
    assert not attempt(rejected, b"")


@pytest.mark.parametrize("answer", [b"", session(0), b"HTTP/1.1 400 Bad Request", struct.pack(">i", 12)])
def test_a_session_is_kept_while_no_server_accepts_a_new_one(answer: bytes) -> None:
    rejected = rejected_session()
    for _ in range(3):
        with pytest.raises(
            ConnectionError, match="the ZooKeeper server accepts connections, but does not begin a session"
        ):
            attempt(rejected, answer)
    assert not rejected.given_up


def test_no_session_is_given_up_before_one_has_begun_or_after_its_end() -> None:
    rejected = RejectedSession(session_timeout=0)
    assert not attempt(rejected, b"")
    rejected.accepted()
    rejected.ended()
    assert not attempt(rejected, b"")

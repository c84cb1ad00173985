"""When a session is given up that no server accepts."""

import socket
import struct
import threading
from types import SimpleNamespace

import pytest

from pyklient.registry import rejected_session as module
from pyklient.registry.rejected_session import RejectedSession

_SESSION = 30.0
"""The session time-out in seconds, which is also the longest wait for the answer of a server."""


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
        thread.join(30)


def session(timeout_ms: int) -> bytes:
    """Return the answer of a server that begins a session with this time-out, as Kafka's ZooKeeper does."""
    return struct.pack(">iiiqi16s?", 37, 0, timeout_ms, 7, 16, bytes(16), False)


@pytest.fixture
def rejected(monkeypatch: pytest.MonkeyPatch) -> RejectedSession:
    """A session that no server has accepted for the session time-out."""
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    rejected = RejectedSession(_SESSION)
    rejected.accepted()
    assert not attempt(rejected, b"")  # the session time-out begins
    now += _SESSION - 1
    assert not attempt(rejected, b"")
    now += 1
    return rejected


def test_a_session_is_given_up_if_only_new_ones_are_accepted(rejected: RejectedSession) -> None:
    with pytest.raises(
        ConnectionError, match="the ZooKeeper server accepts new sessions, but not the existing session"
    ):
        attempt(rejected, session(1000))
    assert not attempt(rejected, b"")  # the existing session is tried once more
    assert attempt(rejected, b"")
    assert rejected.given_up
    rejected.accepted()
    assert not rejected.given_up
    assert not attempt(rejected, b"")


@pytest.mark.parametrize("answer", [b"", session(0), b"HTTP/1.1 400 Bad Request", struct.pack(">i", 12)])
def test_a_session_is_kept_while_no_server_accepts_a_new_one(
    rejected: RejectedSession, answer: bytes
) -> None:
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

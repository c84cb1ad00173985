"""Bytes over a real pair of sockets: all of them, in order, in limited time."""

import contextlib
import pickle
import socket
import threading
import time
from collections.abc import Iterator

import pytest

import pyklient
from pyklient.errors import BrokerConnectionError, ClosedError, KafkaTimeoutError
from pyklient.net.connection.transport import Deadline, Endpoint, PeerClosedError, TcpTransport, connect


def time_left(seconds: float = 5.0) -> Deadline:
    return Deadline(seconds, lambda: KafkaTimeoutError("time is up"))


@contextlib.contextmanager
def linked(
    *, buffer: int | None = None, slow_path: bool = False
) -> Iterator[tuple[TcpTransport, socket.socket]]:
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    if buffer is not None:
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffer)
    far.settimeout(5)
    with listener, far, near:
        yield (
            (
                TcpTransport(near, "the peer", gather=False, receive_flags=0)
                if slow_path
                else TcpTransport(near, "the peer")
            ),
            far,
        )


def read_all(sock: socket.socket, size: int) -> bytes:
    with sock.makefile("rb") as stream:
        return stream.read(size)


@pytest.mark.parametrize("slow_path", [False, True])
def test_parts_arrive_whole_and_in_order_through_a_small_buffer(slow_path: bool) -> None:
    parts = [bytes([index % 251]) * (index % 7 * 400) for index in range(3000)]
    expected = b"".join(parts)
    got: list[bytes] = []
    with linked(buffer=64 * 1024, slow_path=slow_path) as (transport, far):
        reader = threading.Thread(target=lambda: got.append(read_all(far, len(expected))))
        reader.start()
        transport.send([memoryview(part) for part in parts], time_left())
        reader.join(30)
    assert got == [expected]


@pytest.mark.parametrize("slow_path", [False, True])
def test_what_the_system_does_not_take_at_once_comes_back_and_nothing_is_lost(slow_path: bool) -> None:
    parts = [bytes([number]) * 40_000 for number in range(200)]
    expected = b"".join(parts)
    got: list[bytes] = []
    with linked(buffer=64 * 1024, slow_path=slow_path) as (transport, far):
        waiting = list(parts)
        began = time.monotonic()
        while waiting and not (left := transport.send_at_once(waiting[:2])):
            waiting = waiting[2:]
        assert time.monotonic() - began < 10  # nobody reads
        assert sum(map(len, left)) > 0
        reader = threading.Thread(target=lambda: got.append(read_all(far, len(expected))))
        reader.start()
        transport.send(left, time_left())
        transport.send(waiting[2:], time_left())
        reader.join(30)
    assert got == [expected]


@pytest.mark.parametrize("slow_path", [False, True])
def test_receive_returns_exactly_what_was_asked_for_however_it_arrives(slow_path: bool) -> None:
    with linked(slow_path=slow_path) as (transport, far):

        def trickle() -> None:
            for index in range(10):
                far.sendall(bytes([index]) * 1000)
                time.sleep(0.01)

        writer = threading.Thread(target=trickle)
        writer.start()
        frame = transport.receive(9_500, time_left())
        rest = transport.receive(500, time_left())
        writer.join(30)
    assert bytes(frame) + bytes(rest) == b"".join(bytes([index]) * 1000 for index in range(10))


def test_an_answer_that_pauses_longer_than_a_tick_is_still_received_whole() -> None:
    waits = iter([0.02, 0.02, 0.02, 5.0, 5.0])
    with linked() as (transport, far):
        far.sendall(b"abc")
        timer = threading.Timer(0.05, far.sendall, [b"def"])
        timer.start()
        assert bytes(transport.receive(6, lambda: next(waits))) == b"abcdef"
        timer.join()


def test_bytes_that_were_received_before_come_first() -> None:
    with linked() as (transport, far):
        far.sendall(b"def")
        assert bytes(transport.receive(6, time_left(), b"abc")) == b"abcdef"


def test_nothing_is_received_where_nothing_is_asked_for() -> None:
    with linked() as (transport, _):
        assert bytes(transport.receive(0, time_left())) == b""


def test_a_wait_ends_when_its_patience_does() -> None:
    with linked() as (transport, _):
        started = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match="time is up"):
            transport.receive(4, time_left(0.1))
        assert 0.09 < time.monotonic() - started < 10


def test_a_send_that_nobody_reads_ends_when_its_patience_does() -> None:
    with linked(buffer=4096) as (transport, _), pytest.raises(KafkaTimeoutError):
        transport.send([bytes(50_000_000)], time_left(0.1))


def test_the_end_of_the_stream_is_an_error_of_its_own() -> None:
    with linked() as (transport, far):
        far.shutdown(socket.SHUT_WR)
        with pytest.raises(PeerClosedError, match="the peer closed the connection"):
            transport.receive(4, time_left())


def test_the_end_of_the_stream_within_an_answer_is_said_to_be_that() -> None:
    with linked() as (transport, far):
        far.sendall(b"ab")
        far.shutdown(socket.SHUT_WR)
        with pytest.raises(PeerClosedError, match="in the middle of a response"):
            transport.receive(4, time_left())


def test_abort_wakes_a_thread_that_is_waiting() -> None:
    failures: list[BaseException] = []
    with linked() as (transport, _):

        def wait() -> None:
            try:
                transport.receive(4, time_left())
            except BrokerConnectionError as error:
                failures.append(error)

        waiter = threading.Thread(target=wait)
        waiter.start()
        transport.abort()
        waiter.join(30)
    assert len(failures) == 1


def test_a_reset_connection_says_so() -> None:
    with linked() as (transport, far):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        far.close()
        with pytest.raises(
            BrokerConnectionError, match="the connection to the peer failed: Connection reset"
        ):
            transport.receive(4, time_left())


def test_a_refused_connection_names_the_address_and_what_to_look_at() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(
        BrokerConnectionError, match=f"127.0.0.1:{port}: connection refused; check that the broker is run"
    ):
        connect(Endpoint(1, "127.0.0.1", port), time_left())


def test_a_refused_connection_is_an_error_that_programs_can_import_and_pickle() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(pyklient.UnreachableError) as caught:
        connect(Endpoint(1, "127.0.0.1", port), time_left())
    found = pickle.loads(pickle.dumps(caught.value))
    assert (str(found), found.nobody_there) == (str(caught.value), True)
    assert found.cause == f"connection refused by 127.0.0.1:{port}"


def test_an_unknown_host_is_told_from_an_unreachable_one() -> None:
    with pytest.raises(BrokerConnectionError, match=r"no address for the host name 'nowhere\.invalid'"):
        connect(Endpoint(-2, "nowhere.invalid", 9092), time_left())


def test_all_addresses_of_a_name_are_tried_in_turn() -> None:
    # localhost stands for ::1 as well on many machines, where nothing listens here.
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sock = connect(Endpoint(1, "localhost", listener.getsockname()[1]), time_left())
        sock.close()


def test_connecting_stops_when_it_is_cancelled() -> None:
    deadline = Deadline(10, lambda: KafkaTimeoutError("late"), lambda: ClosedError("closed"))
    with pytest.raises(ClosedError):
        connect(Endpoint(1, "127.0.0.1", 9), deadline)


def test_an_ipv6_address_is_written_with_brackets() -> None:
    assert str(Endpoint(3, "::1", 9092)) == "broker 3 at [::1]:9092"
    assert str(Endpoint(-2, "::1", 9092)) == "bootstrap server [::1]:9092"

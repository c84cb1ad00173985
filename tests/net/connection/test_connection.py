"""One connection: responses reach their callers, failures reach everyone who waits, and nothing is left
behind."""

import pickle
import signal
import socket
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest

from pyklient.errors import (
    BrokerConnectionError,
    ClosedError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
)
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import NoVersionsError
from pyklient.protocol.framing import ReceivedRequest, ServerFraming
from pyklient.protocol.messages import (
    REQUESTS,
    ApiVersionsRequest,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    MetadataRequest,
    ProduceRequest,
)
from tests.net.connections import failure_of, opened
from tests.net.scripted import HANG_UP, SILENCE, RawServer, ScriptedBroker


def readers(connection: Connection) -> list[threading.Thread]:
    """Return the reader threads of *connection* that run."""

    def reads_for(thread: threading.Thread) -> object:
        return getattr(getattr(thread, "_target", None), "__self__", None)

    return [each for each in threading.enumerate() if reads_for(each) is connection._responses]


def test_ask_returns_the_answer_without_another_thread(connection: Connection) -> None:
    assert connection.ask(HeartbeatRequest(generation_id=7)).throttle_time_ms == 7
    assert not readers(connection)


def test_many_requests_under_way_get_their_own_answers(connection: Connection) -> None:
    futures = [connection.send(HeartbeatRequest(generation_id=index)) for index in range(200)]
    assert [future.result(20).throttle_time_ms for future in futures] == list(range(200))
    assert len(readers(connection)) == 1


def test_a_connection_ends_with_a_request_that_is_interrupted(
    broker: ScriptedBroker, connection: Connection
) -> None:
    def interrupt(request: HeartbeatRequest) -> Any:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return SILENCE

    broker.on(HeartbeatRequest, interrupt)
    with pytest.raises(KeyboardInterrupt):
        connection.ask(HeartbeatRequest(generation_id=1), 30)
    # The next answer on it would be that of the request before.
    assert not connection.alive
    with pytest.raises(BrokerConnectionError, match="was interrupted"):
        connection.ask(HeartbeatRequest(generation_id=2))


def test_asking_goes_on_working_once_the_connection_is_shared(connection: Connection) -> None:
    future = connection.send(HeartbeatRequest(generation_id=1))
    assert connection.ask(HeartbeatRequest(generation_id=2)).throttle_time_ms == 2
    assert future.result(0).throttle_time_ms == 1


def test_threads_that_ask_at_once_do_not_get_each_others_answers(connection: Connection) -> None:
    wrong: list[int] = []

    def ask(start: int) -> None:
        for number in range(start, start + 50):
            if connection.ask(HeartbeatRequest(generation_id=number), 20).throttle_time_ms != number:
                wrong.append(number)

    threads = [threading.Thread(target=ask, args=(1000 * index,)) for index in range(6)]
    threads.append(threading.Thread(target=lambda: connection.send(HeartbeatRequest()).result(20)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong


def test_a_large_answer_is_handed_on_in_one_piece(broker: ScriptedBroker, connection: Connection) -> None:
    records = bytes(range(256)) * 20_000
    partition = FetchResponse.PartitionData(partition_index=0, high_watermark=5, records=records)
    topic = FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])
    broker.on(FetchRequest, lambda request: FetchResponse(responses=[topic]))
    response = connection.ask(FetchRequest(), max_version=12)
    received = response.responses[0].partitions[0].records
    assert isinstance(received, memoryview)
    assert received == records


def test_record_bytes_go_out_as_they_stand(broker: ScriptedBroker, connection: Connection) -> None:
    chunk = bytearray(b"record" * 100_000)
    partition = ProduceRequest.PartitionProduceData(index=0, records=[chunk, memoryview(chunk)])
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    broker.on(ProduceRequest, lambda request: SILENCE)
    heard: list[Any] = []
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[topic])
    connection.submit(request, 12, lambda *answer: heard.append(answer), timeout=20, expects_reply=False)
    assert heard == [(None, None)]
    assert connection.ask(HeartbeatRequest(generation_id=3)).throttle_time_ms == 3
    (produced,) = [message for message in broker.requests if isinstance(message, ProduceRequest)]
    assert produced.topic_data[0].partition_data[0].records == chunk * 2


def test_an_unanswered_ask_times_out_and_ends_the_connection(
    broker: ScriptedBroker, connection: Connection
) -> None:
    broker.on(HeartbeatRequest, lambda request: SILENCE)
    with pytest.raises(KafkaTimeoutError, match=rf"broker 1 at {broker.address} did not answer Heartbeat"):
        connection.ask(HeartbeatRequest(), 0.5)
    assert not connection.alive
    with pytest.raises(KafkaTimeoutError):
        connection.ask(HeartbeatRequest())


def test_an_unanswered_request_fails_all_that_wait_behind_it(
    broker: ScriptedBroker, connection: Connection
) -> None:
    broker.on(HeartbeatRequest, lambda request: SILENCE)
    first = connection.send(HeartbeatRequest(), timeout=1)
    second = connection.send(HeartbeatRequest(), timeout=30)
    assert isinstance(failure_of(first), KafkaTimeoutError)
    lost = failure_of(second)
    assert isinstance(lost, BrokerConnectionError)
    assert "failed with its connection" in str(lost)
    assert not connection.alive


def test_an_answer_in_time_does_not_fall_to_the_timeout_of_another(connection: Connection) -> None:
    futures = [connection.send(HeartbeatRequest(generation_id=index), timeout=20) for index in range(3)]
    assert [future.result(20).throttle_time_ms for future in futures] == [0, 1, 2]
    assert connection.ask(HeartbeatRequest(generation_id=9), 20).throttle_time_ms == 9


@pytest.mark.parametrize("shared", [False, True])
def test_a_broker_that_hangs_up_fails_what_is_under_way(
    broker: ScriptedBroker, connection: Connection, shared: bool
) -> None:
    connection.ask(HeartbeatRequest())
    broker.on(HeartbeatRequest, lambda request: HANG_UP)
    if shared:
        connection.send(HeartbeatRequest()).exception(20)
    with pytest.raises(BrokerConnectionError, match=f"broker 1 at {broker.address} closed the connection"):
        connection.ask(HeartbeatRequest())
    with pytest.raises(BrokerConnectionError):
        connection.send(HeartbeatRequest())


def test_a_broker_that_answers_nothing_but_its_versions_may_want_sasl(
    broker: ScriptedBroker, connection: Connection
) -> None:
    broker.on(HeartbeatRequest, lambda request: HANG_UP)
    with pytest.raises(BrokerConnectionError, match="set security_protocol to SASL_PLAINTEXT"):
        connection.ask(HeartbeatRequest())


def test_a_connection_lost_while_idle_is_noticed_by_its_reader(
    broker: ScriptedBroker, connection: Connection
) -> None:
    connection.send(HeartbeatRequest()).result(20)
    (reader,) = readers(connection)
    broker.drop_connections()
    reader.join(30)
    assert not connection.alive


@pytest.mark.parametrize("shared", [False, True])
def test_close_wakes_whoever_waits_and_leaves_no_thread(
    broker: ScriptedBroker, connection: Connection, shared: bool
) -> None:
    arrived = threading.Event()
    failures: list[KafkaError] = []

    def hold(request: object) -> Any:
        arrived.set()
        return SILENCE

    def wait_for_answer() -> None:
        try:
            if shared:
                connection.send(HeartbeatRequest()).result(60)
            else:
                connection.ask(HeartbeatRequest(), 60)
        except KafkaError as error:
            failures.append(error)

    broker.on(HeartbeatRequest, hold)
    waiter = threading.Thread(target=wait_for_answer)
    waiter.start()
    assert arrived.wait(20)
    started = time.monotonic()
    connection.close()
    waiter.join(30)
    assert time.monotonic() - started < 20
    assert [type(error) for error in failures] == [ClosedError]
    assert not readers(connection)


def test_close_from_a_callback_of_its_own_reader_does_not_lock_up(connection: Connection) -> None:
    done = threading.Event()

    def close(future: "Future[Any]") -> None:
        connection.close()
        done.set()

    connection.send(HeartbeatRequest()).add_done_callback(close)
    assert done.wait(20)
    assert not connection.alive


def test_an_answer_nobody_asked_for_ends_the_connection(
    broker: ScriptedBroker, connection: Connection
) -> None:
    broker.on(HeartbeatRequest, lambda request: b"\0\0\0\6\0\0\xff\xff\0\0")
    with pytest.raises(ProtocolError, match=f"broker 1 at {broker.address}.*correlation id"):
        connection.ask(HeartbeatRequest())
    assert not connection.alive


def test_requests_can_be_tried_again_where_the_answer_before_theirs_is_missing(
    broker: ScriptedBroker, connection: Connection
) -> None:
    broker.on(DescribeGroupsRequest, lambda request: SILENCE)
    missing, next_one = connection.send(DescribeGroupsRequest()), connection.send(HeartbeatRequest())
    for future in (missing, next_one):
        failure = failure_of(future)
        assert isinstance(failure, BrokerConnectionError)
        assert broker.address in str(failure)
    assert not connection.alive


@pytest.mark.parametrize("garbage", [b"\0\0\0\0", b"\0\0\0\3abc", b"\0\0\0\x0a\0\0\0\1" + b"\xff" * 6])
def test_malformed_answers_are_errors_of_the_reader_too(
    broker: ScriptedBroker, connection: Connection, garbage: bytes
) -> None:
    broker.on(HeartbeatRequest, lambda request: garbage)
    assert isinstance(failure_of(connection.send(HeartbeatRequest())), ProtocolError)


@pytest.mark.parametrize("length", [b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0"])
def test_impossible_lengths_are_refused_before_memory_is_taken(length: bytes) -> None:
    with (
        RawServer(lambda sock: sock.sendall(length + bytes(100))) as server,
        pytest.raises(ProtocolError, match=server.address),
    ):
        opened(server)


def test_an_answer_above_the_limit_names_the_option(broker: ScriptedBroker) -> None:
    group = DescribeGroupsResponse.DescribedGroup(group_id="g" * 20_000)
    broker.on(DescribeGroupsRequest, lambda request: DescribeGroupsResponse(groups=[group]))
    connection = opened(broker, receive_message_max_bytes=10_000)
    with pytest.raises(ProtocolError, match="receive_message_max_bytes"):
        connection.ask(DescribeGroupsRequest())
    connection.close()


def test_a_web_server_is_recognised() -> None:
    with (
        RawServer(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server,
        pytest.raises(ProtocolError, match=f"{server.address}.*web server"),
    ):
        opened(server)


def test_a_web_server_that_waits_for_a_line_is_recognised_too() -> None:
    def serve(sock: socket.socket) -> None:
        line = b""
        while data := sock.recv(1000):
            line += data
            if b"\n" in line:
                sock.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
                return

    with RawServer(serve) as server:
        started = time.monotonic()
        with pytest.raises(ProtocolError, match=f"{server.address} answers in HTTP"):
            opened(server, timeout=2)
        assert time.monotonic() - started < 20


def test_a_peer_that_stays_silent_costs_no_more_than_the_timeout() -> None:
    def listen(sock: socket.socket) -> None:
        while sock.recv(1000):
            pass

    with RawServer(listen) as server:
        started = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match=server.address):
            opened(server, timeout=0.3)
        assert time.monotonic() - started < 10


def test_a_broker_without_api_versions_is_called_too_old() -> None:
    def hang_up(sock: socket.socket) -> None:
        sock.recv(1000)

    with RawServer(hang_up) as server:
        with pytest.raises(UnsupportedVersionError, match=r"older than Kafka 0\.8\.2") as caught:
            opened(server)
        assert isinstance(caught.value, NoVersionsError)
        assert caught.value.retriable, "a broker that is just stopping looks the same"


def versions_with(api_versions: tuple[int, int]) -> dict[int, tuple[int, int]]:
    known = {key: request.versions for key, request in REQUESTS.items()}
    return {**known, ApiVersionsRequest.api_key: api_versions}


def test_an_older_broker_is_asked_again_in_the_version_it_names() -> None:
    with ScriptedBroker(versions=versions_with((0, 2))) as broker:
        opened(broker).close()
        assert [received.version for received in broker.received] == [4, 2]


def test_a_broker_that_names_no_version_is_asked_in_version_0() -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(1000)
        sock.sendall(b"\0\0\0\x0a\0\0\0\0" + b"\0\x23\0\0\0\0")  # error 35, and no versions at all
        assert sock.recv(1000)[6:8] == b"\0\0"
        sock.sendall(b"\0\0\0\x10\0\0\0\1" + b"\0\0\0\0\0\1\0\x12\0\0\0\2")
        sock.recv(1)

    with RawServer(serve) as server:
        connection = opened(server)
        assert connection.version_of(ApiVersionsRequest) == 2
        connection.close()


def test_a_broker_that_names_its_versions_in_a_layout_of_its_own_is_asked_in_version_0() -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(1000)
        # What librdkafka's mock cluster sends: error 35, then an array whose length is written another way.
        sock.sendall(bytes.fromhex("00000011" + "00000000" + "0023" + "0100120000000200000000"))
        assert sock.recv(1000)[6:8] == b"\0\0"
        sock.sendall(b"\0\0\0\x10\0\0\0\1" + b"\0\0\0\0\0\1\0\x12\0\0\0\2")
        sock.recv(1)

    with RawServer(serve) as server:
        connection = opened(server)
        assert connection.version_of(ApiVersionsRequest) == 2
        connection.close()


def test_a_broker_that_is_older_than_2_4_is_asked_in_no_version_that_is_newer() -> None:
    with ScriptedBroker(versions={18: (0, 2), 3: (0, 13), 11: (0, 6), 13: (0, 4)}) as broker:
        connection = opened(broker)
        assert connection.version_of(MetadataRequest) == 8
        assert connection.version_of(JoinGroupRequest) == 5
        assert connection.version_of(LeaveGroupRequest) == 2
        connection.close()


def test_the_newest_common_version_is_chosen_within_the_callers_limit() -> None:
    with ScriptedBroker(versions={18: (0, 4), 1: (4, 99), 12: (9, 9)}) as broker:
        connection = opened(broker)
        assert connection.version_of(FetchRequest) == FetchRequest.versions[1]
        assert connection.version_of(FetchRequest, 12) == 12
        with pytest.raises(UnsupportedVersionError, match=r"supports versions 4 to 99 of Fetch.*at most 3"):
            connection.version_of(FetchRequest, 3)
        with pytest.raises(UnsupportedVersionError, match=r"supports versions 9 to 9 of Heartbeat"):
            connection.ask(HeartbeatRequest())
        with pytest.raises(UnsupportedVersionError, match=r"supports no version of Metadata"):
            connection.send(MetadataRequest())
        assert connection.alive
        connection.close()


@pytest.mark.parametrize("cut_after", [3, 4, 9])
def test_a_hang_up_within_an_answer_says_so(broker: ScriptedBroker, cut_after: int) -> None:
    whole = ServerFraming().send(ReceivedRequest(12, 4, 1, None, HeartbeatRequest()), HeartbeatResponse())

    def answer_partly(request: object) -> Any:
        broker._sockets[-1].sendall(b"".join(whole)[:cut_after])
        return HANG_UP

    broker.on(HeartbeatRequest, answer_partly)
    connection = opened(broker)
    error = failure_of(connection.send(HeartbeatRequest()))
    assert "closed the connection in the middle of a response" in str(error)
    connection.close()


def test_a_request_that_its_version_cannot_carry_leaves_the_connection_usable(connection: Connection) -> None:
    with pytest.raises(UnsupportedVersionError):
        connection.send(MetadataRequest(allow_auto_topic_creation=False), max_version=3)
    assert connection.ask(HeartbeatRequest(generation_id=5)).throttle_time_ms == 5


def test_an_idle_shared_connection_closes_itself(broker: ScriptedBroker) -> None:
    connection = opened(broker, connections_max_idle_ms=100)
    connection.send(HeartbeatRequest()).result(20)
    (reader,) = readers(connection)
    reader.join(30)
    assert not connection.alive
    connection.close()


def test_retiring_waits_for_what_is_in_flight_and_fails_what_is_not_answered_in_time(
    broker: ScriptedBroker, connection: Connection
) -> None:
    release = threading.Event()

    def answer(request: object) -> HeartbeatResponse:
        release.wait(60)
        return HeartbeatResponse()

    broker.on(HeartbeatRequest, answer)
    futures = [connection.send(HeartbeatRequest()) for _ in range(3)]
    timer = threading.Timer(0.05, release.set)
    timer.start()
    connection.retire(10)
    timer.join()
    assert [future.result(0) for future in futures] == [HeartbeatResponse()] * 3
    assert not connection.alive

    release.clear()
    second = opened(broker)
    unanswered = second.send(HeartbeatRequest())
    second.retire(0.05)
    release.set()
    error = failure_of(unanswered)
    assert isinstance(error, BrokerConnectionError)
    assert error.retriable


def test_a_connection_cannot_be_pickled(connection: Connection) -> None:
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(connection)


def test_its_description_says_where_it_leads(connection: Connection, broker: ScriptedBroker) -> None:
    assert repr(connection) == f"<Connection to broker 1 at {broker.address}>"
    connection.close()
    assert repr(connection) == f"<Connection to broker 1 at {broker.address}, closed>"

"""Connections by node and purpose: one for each, replaced when they end, and not opened while a node is in
its back-off."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from pyklient.errors import BrokerConnectionError, ClosedError, ForkError, KafkaError, KafkaTimeoutError
from pyklient.metrics.traffic import Traffic
from pyklient.net.backoff import Backoff
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import open_connection
from pyklient.net.connection.old_brokers import OldBrokers
from pyklient.net.connection.transport import Endpoint
from pyklient.net.connection_pool import Pool, Purpose
from pyklient.protocol.messages import HeartbeatRequest, HeartbeatResponse
from tests.net.connections import opened
from tests.net.scripted import RawServer, ScriptedBroker, config_for
from tests.net.waiters import wait_for_second
from tests.servers.process import wait_until


def endpoint_of(broker: RawServer) -> Endpoint:
    return Endpoint(broker.node_id, broker.host, broker.port)


def pool_for(broker: RawServer, backoff: Backoff | None = None, **options: object) -> Pool:
    return Pool(
        partial(open_connection, config_for(broker, **options), None, OldBrokers()),
        backoff or Backoff(0.01, 0.02),
        2.0,
    )


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.on(HeartbeatRequest, lambda request: HeartbeatResponse())
        yield broker


@pytest.fixture
def pool(broker: ScriptedBroker) -> Iterator[Pool]:
    pool = pool_for(broker)
    yield pool
    pool.close()


@pytest.fixture
def nobody() -> Iterator[Endpoint]:
    """An address at which nothing listens."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield Endpoint(9, "127.0.0.1", unused.getsockname()[1])


def test_a_purpose_has_one_connection_and_purposes_do_not_share(broker: ScriptedBroker, pool: Pool) -> None:
    endpoint = endpoint_of(broker)
    first = pool.get(endpoint, Purpose.FETCH, 20)
    assert pool.get(endpoint, Purpose.FETCH, 20) is first
    assert pool.get(endpoint, Purpose.GROUP, 20) is not first
    assert broker.accepted == 2


def test_threads_that_want_the_same_connection_open_one(broker: ScriptedBroker, pool: Pool) -> None:
    got: list[Connection] = []
    start = threading.Barrier(8)

    def get() -> None:
        start.wait(20)
        got.append(pool.get(endpoint_of(broker), Purpose.OTHER, 20))

    threads = [threading.Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(got) == 8
    assert len(set(map(id, got))) == 1
    assert broker.accepted == 1


def test_a_connection_that_has_ended_is_replaced(broker: ScriptedBroker, pool: Pool) -> None:
    first = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    first.send(HeartbeatRequest()).result(20)
    broker.drop_connections()
    with pytest.raises(BrokerConnectionError):
        first.ask(HeartbeatRequest(), 20)
    second = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    second.ask(HeartbeatRequest(), 20)
    assert not first.alive


def test_a_connection_on_which_the_broker_hung_up_while_idle_is_replaced(
    broker: ScriptedBroker, pool: Pool
) -> None:
    first = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    first.ask(HeartbeatRequest(), 20)
    broker.drop_connections()
    wait_until(lambda: first.expired, 60, "the end of the connection")
    pool.get(endpoint_of(broker), Purpose.OTHER, 20).ask(HeartbeatRequest(), 20)


def test_a_connection_in_the_middle_of_a_request_is_not_taken_for_idle(
    broker: ScriptedBroker, pool: Pool
) -> None:
    answers: list[HeartbeatResponse] = []
    arrived, release = threading.Event(), threading.Event()

    def answer(request: object) -> HeartbeatResponse:
        arrived.set()
        release.wait(60)
        return HeartbeatResponse()

    broker.on(HeartbeatRequest, answer)
    connection = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    asker = threading.Thread(target=lambda: answers.append(connection.ask(HeartbeatRequest(), 20)))
    asker.start()
    assert arrived.wait(20)
    for _ in range(10):
        assert pool.get(endpoint_of(broker), Purpose.OTHER, 20) is connection
        time.sleep(0.01)
    release.set()
    asker.join(30)
    assert len(answers) == 1


def test_a_node_that_moved_gets_a_connection_to_its_new_address(broker: ScriptedBroker, pool: Pool) -> None:
    first = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    with ScriptedBroker() as elsewhere:
        second = pool.get(endpoint_of(elsewhere), Purpose.OTHER, 20)
        assert second.endpoint.port == elsewhere.port
        assert not first.alive


def test_a_connection_whose_session_ends_soon_is_replaced_once_it_is_quiet(
    broker: ScriptedBroker, pool: Pool
) -> None:
    release = threading.Event()

    def answer(request: object) -> HeartbeatResponse:
        release.wait(60)
        return HeartbeatResponse(throttle_time_ms=5)

    broker.on(HeartbeatRequest, answer)
    first = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    under_way = first.send(HeartbeatRequest())
    first.complete_setup({HeartbeatRequest.api_key: (0, 4)}, 0.0, "")
    timer = threading.Timer(0.05, release.set)
    timer.start()
    second = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    timer.join()
    assert second is not first
    assert under_way.result(0).throttle_time_ms == 5
    assert not first.alive


class Asking:
    """An ``ask`` in another thread, which the broker answers when the test allows it."""

    def __init__(self, broker: ScriptedBroker, connection: Connection) -> None:
        self.answers: list[HeartbeatResponse] = []
        self.failures: list[KafkaError] = []
        self.release = threading.Event()
        self._arrived = threading.Event()
        broker.on(HeartbeatRequest, self._answer)
        self._thread = threading.Thread(target=self._ask, args=(connection,))
        self._thread.start()
        assert self._arrived.wait(20)

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _answer(self, request: object) -> HeartbeatResponse:
        self._arrived.set()
        self.release.wait(60)
        return HeartbeatResponse(throttle_time_ms=5)

    def _ask(self, connection: Connection) -> None:
        try:
            self.answers.append(connection.ask(HeartbeatRequest(), 10))
        except KafkaError as error:
            self.failures.append(error)


def test_a_connection_whose_session_ends_soon_answers_what_was_asked_without_a_reader(
    broker: ScriptedBroker, pool: Pool
) -> None:
    first = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    asking = Asking(broker, first)
    first.complete_setup({HeartbeatRequest.api_key: (0, 4)}, 0.0, "")
    timer = threading.Timer(0.05, asking.release.set)
    timer.start()
    assert pool.get(endpoint_of(broker), Purpose.OTHER, 10) is not first
    timer.join()
    asking.join()
    assert [answer.throttle_time_ms for answer in asking.answers] == [5]
    assert not first.alive


def test_a_request_on_a_connection_that_is_replaced_fails_as_after_a_disconnection(
    broker: ScriptedBroker, pool: Pool
) -> None:
    first = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    asking = Asking(broker, first)
    first.complete_setup({HeartbeatRequest.api_key: (0, 4)}, 0.0, "")
    second = pool.get(endpoint_of(broker), Purpose.OTHER, 3)
    asking.join()
    asking.release.set()
    assert second is not first
    assert [type(error) for error in asking.failures] == [BrokerConnectionError]
    assert asking.failures[0].retriable
    assert "was replaced by a new one" in str(asking.failures[0])
    with pytest.raises(BrokerConnectionError, match="was replaced"):
        first.ask(HeartbeatRequest())


def test_a_connection_idle_for_too_long_is_replaced(broker: ScriptedBroker) -> None:
    pool = pool_for(broker, connections_max_idle_ms=30)
    first = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    first.ask(HeartbeatRequest())
    wait_until(lambda: first.expired, 60, "the end of the connection")
    assert pool.get(endpoint_of(broker), Purpose.OTHER, 20) is not first
    pool.close()


def test_a_new_connection_waits_for_its_first_request(broker: ScriptedBroker) -> None:
    pool = pool_for(broker, connections_max_idle_ms=1)
    first = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    time.sleep(0.02)
    assert pool.get(endpoint_of(broker), Purpose.OTHER, 20) is first
    first.ask(HeartbeatRequest())
    time.sleep(0.02)
    assert pool.get(endpoint_of(broker), Purpose.OTHER, 20) is not first
    pool.close()


def test_a_node_that_failed_is_left_alone_and_says_why(broker: ScriptedBroker, nobody: Endpoint) -> None:
    pool = pool_for(broker, Backoff(50, 50))
    began = time.monotonic()
    with pytest.raises(BrokerConnectionError, match="connection refused"):
        pool.get(nobody, Purpose.OTHER, 20)
    left = pool.wait_time(nobody.node_id)
    assert left <= 60
    assert left + time.monotonic() - began >= 40
    started = time.monotonic()
    with pytest.raises(BrokerConnectionError, match=r"connection refused.*next attempt to connect is in"):
        pool.get(nobody, Purpose.FETCH, 20)
    assert time.monotonic() - started < 15
    pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    assert pool.wait_time(broker.node_id) == 0
    pool.close()


def test_a_short_pause_after_a_failure_is_waited_for(broker: ScriptedBroker, nobody: Endpoint) -> None:
    pool = pool_for(broker, Backoff(0.05, 0.05))
    started = time.monotonic()
    with pytest.raises(BrokerConnectionError):
        pool.get(Endpoint(broker.node_id, nobody.host, nobody.port), Purpose.OTHER, 20)
    pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    assert time.monotonic() - started > 0.03
    assert pool.wait_time(broker.node_id) == 0
    pool.close()


def test_a_pause_that_leaves_no_time_to_connect_is_not_waited_for(
    broker: ScriptedBroker, nobody: Endpoint
) -> None:
    attempts: list[float] = []
    opener = partial(open_connection, config_for(broker), None, OldBrokers())

    def note_and_open(
        endpoint: Endpoint, timeout: float, refusal: Callable[[], KafkaError | None], traffic: Traffic
    ) -> Connection:
        attempts.append(timeout)
        return opener(endpoint, timeout, refusal, traffic)

    pool = Pool(note_and_open, Backoff(2, 2), 2.0)
    with pytest.raises(BrokerConnectionError, match="connection refused"):
        pool.get(Endpoint(broker.node_id, nobody.host, nobody.port), Purpose.OTHER, 20)
    left_alone = pool.wait_time(broker.node_id)
    with pytest.raises(BrokerConnectionError, match="next attempt to connect is in"):
        pool.get(endpoint_of(broker), Purpose.OTHER, left_alone + 0.01)
    assert len(attempts) == 1, "an attempt of a few milliseconds would only have failed"
    pool.get(endpoint_of(broker), Purpose.OTHER, left_alone + 4)
    assert attempts[-1] > 1
    pool.close()


def test_pauses_double_up_to_a_limit_and_differ_between_clients() -> None:
    backoff = Backoff(0.1, 1.0)
    for failures, expected in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (500, 1.0)):
        assert 0.8 * expected <= backoff.pause(failures) <= 1.2 * expected
    assert len({backoff.pause(3) for _ in range(20)}) > 1


def test_waiting_for_another_thread_to_connect_is_bounded(nobody: Endpoint) -> None:
    entered, release = threading.Event(), threading.Event()

    def open_slowly(
        endpoint: Endpoint, timeout: float, cancelled: Callable[[], KafkaError | None], traffic: Traffic
    ) -> Connection:
        entered.set()
        release.wait(60)
        raise BrokerConnectionError("too late")

    slow = Pool(open_slowly, Backoff(0, 0), 5.0)

    def first() -> None:
        with pytest.raises(BrokerConnectionError):
            slow.get(nobody, Purpose.OTHER, 20)

    thread = threading.Thread(target=first)
    thread.start()
    assert entered.wait(20)
    with pytest.raises(KafkaTimeoutError, match="another thread is still connecting"):
        slow.get(nobody, Purpose.OTHER, 0.05)
    release.set()
    thread.join(30)
    slow.close()


def test_close_ends_everything_and_refuses_more(broker: ScriptedBroker, pool: Pool) -> None:
    connections = [pool.get(endpoint_of(broker), purpose, 20) for purpose in Purpose]
    pool.close()
    assert not any(connection.alive for connection in connections)
    with pytest.raises(ClosedError):
        pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    with pytest.raises(ClosedError):
        pool.pause(10)
    pool.close()


def test_close_interrupts_a_thread_that_is_connecting() -> None:
    heard = threading.Event()

    def stay_silent(sock: socket.socket) -> None:
        while sock.recv(1000):
            heard.set()

    failures: list[KafkaError] = []

    def connect() -> None:
        try:
            pool.get(endpoint_of(server), Purpose.OTHER, 60)
        except KafkaError as error:
            failures.append(error)

    with RawServer(stay_silent) as server:
        pool = pool_for(server, socket_connection_setup_timeout_ms=60_000)
        thread = threading.Thread(target=connect)
        thread.start()
        assert heard.wait(20)
        started = time.monotonic()
        pool.close()
        thread.join(30)
        assert time.monotonic() - started < 20
    assert [type(error) for error in failures] == [ClosedError]


def test_an_abandoned_pool_refuses_and_lets_go_of_its_sockets(broker: ScriptedBroker, pool: Pool) -> None:
    connection = pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    pool.abandon()
    with pytest.raises(ForkError, match="make a new client in the child"):
        pool.get(endpoint_of(broker), Purpose.OTHER, 20)
    with pytest.raises(ForkError):
        connection.ask(HeartbeatRequest())
    with pytest.raises(ForkError):
        connection.send(HeartbeatRequest())


class Stuck:
    """An opener that fails when the test allows it."""

    def __init__(self) -> None:
        self.opened = 0
        self.arrived, self.go_on = threading.Event(), threading.Event()

    def __call__(self, endpoint: Endpoint, timeout: float, refusal: object, traffic: Traffic) -> Connection:
        self.opened += 1
        self.arrived.set()
        assert self.go_on.wait(60)
        raise BrokerConnectionError("connection refused")


def test_a_thread_that_waited_for_anothers_try_shares_its_failure(nobody: Endpoint) -> None:
    opener = Stuck()
    pool = Pool(opener, Backoff(60, 60), 2.0)
    raised: list[str] = []

    def get() -> None:
        try:
            pool.get(nobody, Purpose.OTHER, 100)
        except BrokerConnectionError as error:
            raised.append(str(error))

    first, second = (threading.Thread(target=get) for _ in range(2))
    first.start()
    assert opener.arrived.wait(20)
    second.start()
    wait_for_second(pool._opening, (nobody.node_id, Purpose.OTHER))
    opener.go_on.set()
    first.join(30)
    second.join(30)
    assert raised == ["connection refused"] * 2
    assert opener.opened == 1
    pool.close()


def test_a_thread_without_time_for_anothers_try_names_the_failure_before(nobody: Endpoint) -> None:
    opener = Stuck()
    opener.go_on.set()
    pool = Pool(opener, Backoff(0, 0), 2.0)
    with pytest.raises(BrokerConnectionError):
        pool.get(nobody, Purpose.OTHER, 20)
    opener.go_on.clear()
    opener.arrived.clear()
    first = threading.Thread(target=partial(_fails_to_connect, pool, nobody))
    first.start()
    assert opener.arrived.wait(20)
    with pytest.raises(
        BrokerConnectionError, match=r"^connection refused \(another thread is trying again\)$"
    ):
        pool.get(nobody, Purpose.OTHER, 0.01)
    opener.go_on.set()
    first.join(30)
    pool.close()


@pytest.mark.parametrize(
    ("timeout", "age", "said"),
    [
        (0.01, 0, r"^connection refused \(another attempt had only 0\.0\d+ s\)$"),
        (0.01, 31, r"^did not accept a connection$"),
        (5, 0, r"^did not accept a connection$"),
    ],
)
def test_an_attempt_cut_short_by_its_caller_does_not_replace_a_recent_failure(
    nobody: Endpoint, timeout: float, age: float, said: str
) -> None:
    errors = [BrokerConnectionError("connection refused"), KafkaTimeoutError("did not accept a connection")]

    def opener(*_args: object) -> Connection:
        raise errors.pop(0)

    pool = Pool(opener, Backoff(0, 0), 2.0)
    _fails_to_connect(pool, nobody)
    trouble = pool._trouble[nobody.node_id]
    pool._trouble[nobody.node_id] = trouble._replace(failed_at=trouble.failed_at - age)
    with pytest.raises(KafkaError, match=said):
        pool.get(nobody, Purpose.OTHER, timeout)
    pool.close()
    assert str(pool.last_failure(nobody.node_id)) == said.strip("^$").split(r" \(")[0]


def _fails_to_connect(pool: Pool, endpoint: Endpoint) -> None:
    with pytest.raises(BrokerConnectionError):
        pool.get(endpoint, Purpose.OTHER, 20)


class NotedBackoff(Backoff):
    """A back-off without pauses that records the numbers of failures."""

    def __init__(self) -> None:
        super().__init__(0, 0)
        self.asked: list[int] = []

    def pause(self, failures: int) -> float:
        self.asked.append(failures)
        return 0.0


def test_failures_in_a_row_are_counted_until_the_node_is_reached(broker: ScriptedBroker) -> None:
    backoff, failures = NotedBackoff(), [True, True, True, False, True]

    def opener(
        endpoint: Endpoint, timeout: float, cancelled: Callable[[], KafkaError | None], traffic: Traffic
    ) -> Connection:
        if failures.pop(0):
            raise BrokerConnectionError("refused")
        return opened(broker)

    pool = Pool(opener, backoff, 2.0)
    try:
        for _ in range(3):
            with pytest.raises(BrokerConnectionError):
                pool.get(endpoint_of(broker), Purpose.FETCH, 20)
        pool.get(endpoint_of(broker), Purpose.FETCH, 20).close()
        assert pool.last_failure(broker.node_id) is None
        with pytest.raises(BrokerConnectionError):
            pool.get(endpoint_of(broker), Purpose.FETCH, 20)
    finally:
        pool.close()
    assert backoff.asked == [1, 2, 3, 1]

"""The network side of a client as a whole: it finds brokers, knows the cluster, and survives changes of the
cluster."""

import pickle
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyklient.errors import (
    BrokerConnectionError,
    BrokerError,
    ClosedError,
    KafkaTimeoutError,
    ProtocolError,
    UnsupportedVersionError,
)
from pyklient.net.connection_pool import Purpose
from pyklient.net.dialogue import ANY, CONTROLLER, Ask, Dialogue, Pause, Refresh, retried
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import (
    REQUESTS,
    CreateTopicsRequest,
    CreateTopicsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.net.scripted import HANG_UP, SILENCE, Addressed, RawServer, ScriptedBroker, config_for, metadata_of
from tests.servers.process import wait_until


def topic(name: str, leader: int = 1, error: int = 0) -> MetadataResponse.MetadataResponseTopic:
    partition = MetadataResponse.MetadataResponsePartition(partition_index=0, leader_id=leader)
    return MetadataResponse.MetadataResponseTopic(name=name, error_code=error, partitions=[partition])


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        broker.on(HeartbeatRequest, lambda request: HeartbeatResponse())
        yield broker


@pytest.fixture
def client(broker: ScriptedBroker) -> Iterator[NetworkClient]:
    client = NetworkClient(config_for(broker))
    yield client
    client.close()


def beat(to: int) -> Dialogue[HeartbeatResponse]:
    response: HeartbeatResponse = yield Ask(to, HeartbeatRequest())
    return response


def test_nothing_is_opened_before_it_is_needed(broker: ScriptedBroker, client: NetworkClient) -> None:
    assert not client.metadata.nodes
    assert broker.accepted == 0


def test_a_refresh_returns_and_keeps_a_snapshot(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(MetadataRequest, lambda request: metadata_of([broker], [topic("t")], controller_id=1))
    metadata = client.refresh_metadata(["t"], 20)
    assert client.metadata is metadata
    assert metadata.nodes[1].port == broker.port
    assert metadata.partition_count("t") == 1
    (request,) = [message for message in broker.requests if isinstance(message, MetadataRequest)]
    assert [entry.name for entry in request.topics or []] == ["t"]
    assert not request.allow_auto_topic_creation


def test_all_topics_no_topic_and_creation_are_asked_for_as_such(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    client.refresh_metadata(None, 20)
    client.refresh_metadata((), 20)
    client.refresh_metadata(["t"], 20, allow_auto_create=True)
    requests: list[Any] = broker.requests
    assert [request.topics for request in requests[:2]] == [None, []]
    assert [request.allow_auto_topic_creation for request in requests] == [False, False, True]


def test_the_oldest_form_of_the_question_works_too() -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()}
    with ScriptedBroker(versions={**versions, MetadataRequest.api_key: (0, 0)}) as broker:
        client = NetworkClient(config_for(broker))
        assert client.refresh_metadata(None, 20).nodes
        client.close()


def test_bootstrap_tries_all_servers_before_it_waits(broker: ScriptedBroker) -> None:
    with RawServer(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as web:
        servers = [Addressed(0).address, web.address, broker.address]
        client = NetworkClient(config_for(broker, bootstrap_servers=servers, retry_backoff_ms=5_000))
        assert client.refresh_metadata((), 20).nodes
        client.close()


def test_a_bootstrap_server_that_comes_up_late_is_waited_for() -> None:
    place = Addressed(1)
    client = NetworkClient(config_for(bootstrap_servers=place.address))
    arrived: list[ScriptedBroker] = []
    timer = threading.Timer(0.1, lambda: arrived.append(ScriptedBroker(port=place.port)))
    timer.start()
    assert client.refresh_metadata((), 20).nodes
    timer.join()
    client.close()
    for broker in arrived:
        broker.close()


def test_an_unreachable_bootstrap_is_named_with_its_failure_when_time_is_up() -> None:
    places = [Addressed(1), Addressed(2)]
    client = NetworkClient(config_for(bootstrap_servers=[place.address for place in places]))
    started = time.monotonic()
    attempts = r"\d+ attempts?; the last failed: connection refused by .*"
    said = rf"^No broker answered within 2 s \({attempts}\); default_api"
    with pytest.raises(KafkaTimeoutError, match=said) as caught:
        client.refresh_metadata((), 2)
    assert time.monotonic() - started < 20
    assert isinstance(caught.value.__cause__, BrokerConnectionError)
    assert all(place.address in str(caught.value) for place in places)
    client.close()


def test_a_call_that_reached_no_broker_names_its_own_time_and_no_other() -> None:
    def dialogue() -> Dialogue[None]:
        yield Refresh({"clicks"})

    place = Addressed(1)
    client = NetworkClient(config_for(bootstrap_servers=place.address))
    said = rf"^The call did not finish within 2 s; the last failure: cannot connect to [^;]*{place.address}: "
    with pytest.raises(KafkaTimeoutError, match=said) as caught:
        client.play(retried(dialogue), 2)
    assert str(caught.value).count("within") == 1
    client.close()


@pytest.mark.parametrize(
    "ask",
    [
        lambda client: client.refresh_metadata((), 250),
        lambda client: client.play(find_coordinator("g"), 250),
    ],
    ids=["metadata", "dialogue"],
)
def test_a_client_gives_up_early_where_nobody_listens_if_it_is_told_to(
    ask: Callable[[NetworkClient], object],
) -> None:
    places = [Addressed(1), Addressed(2)]
    client = NetworkClient(
        config_for(bootstrap_servers=[place.address for place in places], bootstrap_refused_timeout_ms=100)
    )
    said = r"^No broker was found within .* \(connection refused by .*\); .*bootstrap_refused_timeout_ms"
    with pytest.raises(BrokerConnectionError, match=said) as caught:
        ask(client)
    assert not caught.value.retriable
    client.close()


def test_a_client_does_not_give_up_early_once_a_broker_has_answered() -> None:
    with ScriptedBroker() as broker:
        client = NetworkClient(config_for(broker, bootstrap_refused_timeout_ms=0))
        client.refresh_metadata((), 20)
    with pytest.raises(KafkaTimeoutError, match=r"No broker answered within 1 s"):
        client.refresh_metadata((), 1)
    client.close()


def test_a_host_name_that_does_not_exist_counts_as_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def resolve(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    client = NetworkClient(config_for(bootstrap_servers="nowhere.invalid", bootstrap_refused_timeout_ms=0))
    with pytest.raises(
        BrokerConnectionError, match=r"no address for the host name 'nowhere\.invalid'"
    ) as caught:
        client.refresh_metadata((), 250)
    assert not caught.value.retriable
    client.close()


def test_a_bootstrap_that_is_no_broker_fails_at_once() -> None:
    with RawServer(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as web:
        client = NetworkClient(config_for(web))
        with pytest.raises(ProtocolError, match=f"{web.address}.*HTTP"):
            client.refresh_metadata((), 30)
        client.close()


def test_a_broker_that_is_too_old_is_said_to_be_so_when_time_is_up() -> None:
    def hang_up(sock: socket.socket) -> None:
        sock.recv(1000)

    with RawServer(hang_up) as old:
        client = NetworkClient(config_for(old))
        with pytest.raises(UnsupportedVersionError, match=r"older than Kafka 0\.8\.2"):
            client.refresh_metadata((), 2)
        client.close()


def test_threads_that_ask_for_the_same_metadata_share_one_request(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    arrived, release = threading.Event(), threading.Event()

    def answer(request: object) -> MetadataResponse:
        arrived.set()
        release.wait(60)
        return metadata_of([broker], [topic("t")])

    broker.on(MetadataRequest, answer)
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda: results.append(len(client.refresh_metadata(["t"], 20).topics)))
        for _ in range(5)
    ]
    threads[0].start()
    assert arrived.wait(20)
    for thread in threads[1:]:
        thread.start()
    release.set()
    for thread in threads:
        thread.join(30)
    assert results == [1] * 5
    assert broker.count(MetadataRequest) < 5


def test_a_thread_with_more_time_outlasts_the_refresh_it_joined(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    broker.on(
        MetadataRequest,
        lambda request: (
            SILENCE if broker.count(MetadataRequest) == 1 else metadata_of([broker], [topic("t")])
        ),
    )
    failures: list[BaseException] = []

    def impatient() -> None:
        try:
            client.refresh_metadata(["t"], 0.2)
        except KafkaTimeoutError as error:
            failures.append(error)

    thread = threading.Thread(target=impatient)
    thread.start()
    wait_until(lambda: broker.count(MetadataRequest) == 1, 60, "the first request")
    assert client.refresh_metadata(["t"], 20).topics
    thread.join(30)
    assert len(failures) == 1


def test_a_broker_that_does_not_answer_leaves_time_to_ask_again(broker: ScriptedBroker) -> None:
    broker.on(
        MetadataRequest,
        lambda request: (
            SILENCE if broker.count(MetadataRequest) == 1 else metadata_of([broker], [topic("t")])
        ),
    )
    client = NetworkClient(config_for(broker, request_timeout_ms=200))
    assert client.refresh_metadata(["t"], 60).partition_count("t") == 1
    assert broker.count(MetadataRequest) >= 2
    client.close()


def test_a_topics_error_stays_in_the_snapshot(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(MetadataRequest, lambda request: metadata_of([broker], [topic("t", error=3)]))
    assert client.refresh_metadata(["t"], 20).topics["t"].error == 3


def test_an_error_of_the_whole_answer_is_raised(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(MetadataRequest, lambda request: MetadataResponse(error_code=31))
    with pytest.raises(BrokerError, match=r"cannot get metadata from .*CLUSTER_AUTHORIZATION_FAILED"):
        client.refresh_metadata((), 20)


def test_an_advertised_address_that_cannot_be_reached_is_blamed(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    elsewhere = Addressed(7)
    broker.on(MetadataRequest, lambda request: metadata_of([elsewhere]))
    client.refresh_metadata((), 20)
    with pytest.raises(BrokerConnectionError, match=r"advertised\.listeners") as caught:
        client.connection(7, Purpose.PRODUCE, 20)
    assert f"broker 7 at {elsewhere.address}" in str(caught.value)
    assert "named this address for broker 7" in str(caught.value)
    assert "connection refused" in str(caught.value)


def test_a_broker_that_was_reached_before_is_just_down(broker: ScriptedBroker, client: NetworkClient) -> None:
    other = ScriptedBroker(node_id=7)
    broker.on(MetadataRequest, lambda request: metadata_of([broker, other]))
    client.connection(7, Purpose.OTHER, 20)
    other.close()
    with pytest.raises(BrokerConnectionError) as caught:
        client.connection(7, Purpose.PRODUCE, 20)
    assert "advertised.listeners" not in str(caught.value)


def test_an_unknown_node_is_asked_for_once_and_then_named(client: NetworkClient) -> None:
    with pytest.raises(BrokerConnectionError, match=re.escape("broker 5 is not in the cluster")) as caught:
        client.connection(5, Purpose.OTHER, 20)
    assert "brokers: 1" in str(caught.value)


def test_the_bootstrap_servers_are_asked_again_when_all_known_nodes_are_gone(broker: ScriptedBroker) -> None:
    member = ScriptedBroker(node_id=2)
    broker.on(MetadataRequest, lambda request: metadata_of([member]))
    client = NetworkClient(config_for(broker))
    client.refresh_metadata((), 20)
    client.connection(2, Purpose.OTHER, 20)
    member.close()
    broker.drop_connections()
    with ScriptedBroker(node_id=3) as successor:
        broker.on(MetadataRequest, lambda request: metadata_of([successor]))
        assert list(client.refresh_metadata((), 20).nodes) == [3]
        client.connection(3, Purpose.OTHER, 20)
    client.close()


def test_any_broker_means_one_that_is_connected_already(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    client.refresh_metadata((), 20)
    for _ in range(5):
        client.play(beat(ANY), 20)
    assert broker.accepted == 1


def test_the_controller_is_looked_up_and_asked(broker: ScriptedBroker, client: NetworkClient) -> None:
    with ScriptedBroker(node_id=2) as controller:
        controller.on(CreateTopicsRequest, lambda request: CreateTopicsResponse())
        broker.on(MetadataRequest, lambda request: metadata_of([broker, controller], controller_id=2))

        def create() -> Dialogue[object]:
            return (yield Ask(CONTROLLER, CreateTopicsRequest()))

        client.play(create(), 20)
        assert controller.count(CreateTopicsRequest) == 1


def test_a_cluster_without_a_controller_says_so(client: NetworkClient) -> None:
    with pytest.raises(BrokerConnectionError, match="no controller"):
        client.play(beat(CONTROLLER), 20)


def test_a_dialogue_may_ask_again_after_a_failure(broker: ScriptedBroker, client: NetworkClient) -> None:
    answers: list[Any] = [HANG_UP, HANG_UP, HeartbeatResponse(throttle_time_ms=3)]
    broker.on(HeartbeatRequest, lambda request: answers.pop(0))

    def persistent() -> Dialogue[int]:
        while True:
            try:
                response: HeartbeatResponse = yield Ask(1, HeartbeatRequest())
            except BrokerConnectionError as error:
                yield Pause(because=error)
            else:
                return response.throttle_time_ms

    assert client.play(persistent(), 20) == 3


def test_a_dialogue_out_of_time_names_what_it_waited_for(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    broker.on(HeartbeatRequest, lambda request: SILENCE)
    started = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match="did not answer Heartbeat within"):
        client.play(beat(1), 1)
    assert time.monotonic() - started < 20


def test_the_timeout_of_one_request_may_be_shorter(broker: ScriptedBroker, client: NetworkClient) -> None:
    broker.on(HeartbeatRequest, lambda request: SILENCE)

    def hasty() -> Dialogue[object]:
        return (yield Ask(1, HeartbeatRequest(), timeout=0.5))

    started = time.monotonic()
    with pytest.raises(KafkaTimeoutError):
        client.play(hasty(), 60)
    assert time.monotonic() - started < 20


def test_a_refresh_is_spared_where_the_topics_are_known(
    broker: ScriptedBroker, client: NetworkClient
) -> None:
    def look(topics: list[str]) -> Dialogue[object]:
        return (yield Refresh(topics, known_ok=True))

    broker.on(MetadataRequest, lambda request: metadata_of([broker], [topic("t"), topic("bad", error=5)]))
    client.play(look(["t"]), 20)
    client.play(look(["t"]), 20)
    assert broker.count(MetadataRequest) == 1
    client.play(look(["bad"]), 20)
    client.play(look(["t", "other"]), 20)
    assert broker.count(MetadataRequest) == 3


def test_close_ends_a_dialogue_that_pauses(client: NetworkClient) -> None:
    pausing = threading.Event()

    def dawdle() -> Dialogue[None]:
        pausing.set()
        yield Pause(60)

    failures: list[BaseException] = []

    def play() -> None:
        try:
            client.play(dawdle(), 60)
        except ClosedError as error:
            failures.append(error)

    thread = threading.Thread(target=play)
    thread.start()
    assert pausing.wait(20)
    client.close()
    thread.join(30)
    assert len(failures) == 1


def test_a_closed_client_says_so(client: NetworkClient) -> None:
    client.close()
    client.close()
    for call in (
        lambda: client.refresh_metadata((), 20),
        lambda: client.connection(ANY, Purpose.OTHER, 20),
        lambda: client.play(beat(ANY), 20),
    ):
        with pytest.raises(ClosedError):
            call()


def test_a_client_cannot_be_pickled(client: NetworkClient) -> None:
    with pytest.raises(TypeError, match="create it in the process that uses it"):
        pickle.dumps(client)


_FORK = """
import os, sys, warnings
from pyklient.config import AdminConfig
from pyklient.errors import ForkError
from pyklient.net.network_client import NetworkClient
from pyklient.net.connection_pool import Purpose
from pyklient.protocol.messages import HeartbeatRequest

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
client = NetworkClient(AdminConfig(bootstrap_servers=sys.argv[1]))
shared = client.connection(-1, Purpose.OTHER, 20)
shared.send(HeartbeatRequest()).result(20)
alone = client.connection(-1, Purpose.FETCH, 20)
alone.ask(HeartbeatRequest(), 20)
child = os.fork()
if child == 0:
    refused = 0
    for call in (
        lambda: client.refresh_metadata((), 20),
        lambda: client.connection(-1, Purpose.OTHER, 20),
        lambda: shared.send(HeartbeatRequest()),
        lambda: alone.ask(HeartbeatRequest(), 20),
    ):
        try:
            call()
        except ForkError:
            refused += 1
    client.close()
    os._exit(refused)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4, "the child's uses are refused"
shared.send(HeartbeatRequest()).result(20)
alone.ask(HeartbeatRequest(), 20)
client.close()
"""


def test_a_forked_child_is_refused_and_does_not_disturb_its_parent(broker: ScriptedBroker) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", _FORK, broker.address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
    assert broker.count(HeartbeatRequest) == 4
    assert broker.accepted == 2

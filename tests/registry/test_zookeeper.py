"""Sessions with a real ZooKeeper: requests, watches, and what happens when a server is away."""

import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from pyklient.errors import (
    AuthenticationError,
    ClosedError,
    KafkaTimeoutError,
    NodeExistsError,
    NodeVersionError,
    NoNodeError,
    RegistryConnectionError,
    RegistryError,
)
from pyklient.registry.requests import (
    Children,
    Create,
    Delete,
    Node,
    Read,
    RegistryDialogue,
    RegistryPause,
    Together,
    Write,
    all_answers,
)
from pyklient.registry.session_event import SessionEvent
from pyklient.registry.settings import ZooKeeperSettings
from pyklient.registry.zookeeper import ZooKeeper
from tests.servers.delaying import DelayingProxy
from tests.servers.ports import HOST, free_port
from tests.servers.process import wait_until
from tests.servers.stalling_proxy import StallingProxy
from tests.servers.zookeeper import connected
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.java

NewSession = Callable[[], ZooKeeper]


def test_a_dialogue_reads_what_another_session_wrote(new_session: NewSession) -> None:
    def write() -> RegistryDialogue[int]:
        yield Create("/a/b", b"1")
        yield Create("/a/c", ephemeral=True)
        version: int = yield Write("/a/b", b"2")
        return version

    def read() -> RegistryDialogue[tuple[object, ...]]:
        return (yield Read("/a/b")), (yield Read("/a/c")), (yield Children("/a")), (yield Read("/a/d"))

    writer = new_session()
    assert writer.play(write(), 10) == 1
    mine = Node(b"", ephemeral=True, mine=True)
    assert writer.play(read(), 10) == (Node(b"2", 1), mine, ["b", "c"], None)
    other = Node(b"", ephemeral=True)
    assert new_session().play(read(), 10) == (Node(b"2", 1), other, ["b", "c"], None)


def test_the_end_of_a_session_deletes_its_ephemeral_nodes_only(new_session: NewSession) -> None:
    ending, watching = new_session(), new_session()
    ending.ask(Create("/stays"), 10)
    ending.ask(Create("/goes", ephemeral=True), 10)
    changed = threading.Event()
    assert watching.ask(Read("/goes", watch=True), 10, changed.set) is not None
    ending.close()
    assert changed.wait(30)
    assert watching.ask(Children("/"), 10) == ["stays"]


def test_an_error_names_the_node_and_what_is_wrong(new_session: NewSession) -> None:
    session = new_session()
    session.ask(Create("/a/b"), 10)
    with pytest.raises(NodeExistsError, match="could not create /a/b: the node exists already"):
        session.ask(Create("/a/b"), 10)
    with pytest.raises(NoNodeError, match="could not write /c: there is no such node"):
        session.ask(Write("/c", b""), 10)
    with pytest.raises(NodeVersionError, match="could not write /a/b: another client has changed"):
        session.ask(Write("/a/b", b"", version=7), 10)
    with pytest.raises(RegistryError, match="could not delete /a: NotEmptyError"):
        session.ask(Delete("/a"), 10)
    assert session.ask(Children("/nothing"), 10) is None
    assert session.ask(Delete("/nothing"), 10) is False
    assert session.ask(Delete("/a", children=True), 10) is True
    assert session.ask(Children("/"), 10) == []


def test_an_error_is_raised_inside_the_dialogue(new_session: NewSession) -> None:
    def dialogue() -> RegistryDialogue[str]:
        try:
            yield Write("/missing", b"")
        except NoNodeError:
            yield RegistryPause(0.01)
            yield Create("/missing", b"now")
        found = yield Read("/missing")
        return str(found.content)

    assert new_session().play(dialogue(), 10) == "b'now'"


def test_requests_that_are_sent_together_have_an_answer_or_an_error_each(new_session: NewSession) -> None:
    def dialogue() -> RegistryDialogue[list[Any]]:
        answers: list[Any] = yield Together(
            (Create("/a"), Create("/a"), Read("/none"), Write("/none", b""), Children("/"), Delete("/a"))
        )
        return answers

    created, exists, missing, unwritten, children, deleted = new_session().play(dialogue(), 10)
    assert (created, missing, children, deleted) == (None, None, ["a"], True)
    assert isinstance(exists, NodeExistsError)
    assert isinstance(unwritten, NoNodeError)

    def failing() -> RegistryDialogue[None]:
        yield from all_answers([Read("/a"), Write("/c", b""), Create("/d")])

    session = new_session()
    with pytest.raises(NoNodeError, match="could not write /c: there is no such node"):
        session.play(failing(), 10)
    assert session.ask(Read("/d"), 10) == Node(b"")


def test_many_requests_take_few_round_trips(zookeeper_kafka: ZooKeeperKafka, address: str) -> None:
    hosts, slash, chroot = address.partition("/")
    names = [f"/a/b/{number}" for number in range(1000)]

    def dialogue() -> RegistryDialogue[list[Node]]:
        yield from all_answers(Create(name, name.encode()) for name in names)
        return (yield from all_answers(Read(name) for name in names))

    with DelayingProxy(hosts, round_trip=0.02) as proxy:
        session = ZooKeeper(ZooKeeperSettings(address=f"{proxy.address}{slash}{chroot}"))
        session.ask(Read("/"), 10)
        began = time.monotonic()
        found = session.play(dialogue(), 60)
        assert time.monotonic() - began < 0.02 * len(names)  # half of one by one
        assert [node.content.decode() for node in found] == names
        session.close()


def test_a_long_dialogue_goes_on_as_long_as_answers_come(
    zookeeper_kafka: ZooKeeperKafka, address: str
) -> None:
    hosts, slash, chroot = address.partition("/")

    def dialogue() -> RegistryDialogue[str]:
        for _ in range(9):
            yield Read("/")
        return "the end"

    with DelayingProxy(hosts, round_trip=0.4) as proxy:
        session = ZooKeeper(ZooKeeperSettings(address=f"{proxy.address}{slash}{chroot}"))
        session.ask(Read("/"), 10)
        assert session.play(dialogue(), 3, per_answer=True) == "the end"
        with pytest.raises(KafkaTimeoutError, match=r"within 3 s, in which it answered [1-7] other requests"):
            session.play(dialogue(), 3)
        proxy.stall()
        with pytest.raises(KafkaTimeoutError, match=r"did not answer a request for / within 3 s; it is not"):
            session.play(dialogue(), 3, per_answer=True)
        session.close()


def test_a_watch_tells_a_write_a_deletion_and_a_creation_each_once(new_session: NewSession) -> None:
    session, writer = new_session(), new_session()
    changes: SimpleQueue[None] = SimpleQueue()

    def on_change() -> None:
        changes.put(None)

    for change in (Create("/a", b"1"), Write("/a", b"2"), Delete("/a")):
        for _ in range(3):  # the same function waits once, however often the node is read
            session.ask(Read("/a", watch=True), 10, on_change)
        writer.ask(change, 10)
        changes.get(timeout=30)
    for change in (Create("/list"), Create("/list/x"), Delete("/list/x")):
        session.ask(Children("/list", watch=True), 10, on_change)
        writer.ask(change, 10)
        changes.get(timeout=30)
    session.ask(Read("/list", watch=False), 10, on_change)
    writer.ask(Write("/list", b"unwatched"), 10)
    session.ask(Read("/list"), 10)
    assert changes.empty()


def test_a_node_that_may_not_come_is_watched_only_while_it_exists(new_session: NewSession) -> None:
    session, writer = new_session(), new_session()
    changed = threading.Event()
    gone = Read("/a", watch=True, may_come=False)
    assert session.ask(gone, 10, changed.set) is None
    writer.ask(Create("/a"), 10)
    assert session.ask(gone, 10, changed.set) == Node(b"")
    assert not changed.is_set()
    writer.ask(Delete("/a"), 10)
    assert changed.wait(30)


def test_a_chroot_that_does_not_exist_is_an_error_and_is_not_created(address: str) -> None:
    wrong = ZooKeeper(ZooKeeperSettings(address=f"{address}/typo"))
    with pytest.raises(RegistryError, match=r"has no node /\w+/typo, which the address names as the chroot"):
        wrong.ask(Create("/a"), 10)
    wrong.close()
    right = ZooKeeper(ZooKeeperSettings(address=address))
    assert right.ask(Children("/"), 10) == []
    right.close()


def test_a_node_without_content_is_read_as_empty(address: str, new_session: NewSession) -> None:
    with connected(address) as client:
        client.create("/brokers", None)  # as Kafka creates the nodes above its own
    assert new_session().ask(Read("/brokers"), 10) == Node(b"")


def test_only_the_user_who_created_a_node_may_change_it_if_set_acl_is_true(address: str) -> None:
    def session(**options: str | bool) -> ZooKeeper:
        return ZooKeeper(ZooKeeperSettings(address=address, **options))  # type: ignore[arg-type]

    alice = session(username="alice", password="secret", set_acl=True)
    bob = session(username="bob", password="other")
    alice.ask(Create("/hers", b"1"), 10)
    alice.ask(Create("/hers/her"), 10)
    assert bob.ask(Read("/hers"), 10) == Node(b"1")
    for request, node, permission in (
        (Write("/hers", b"2"), "/hers", "WRITE"),
        (Create("/hers/a/b"), "/hers", "CREATE"),
        (Delete("/hers/her"), "/hers", "DELETE"),
    ):
        with pytest.raises(
            AuthenticationError,
            match=rf"could not \w+ {request.path}: the access list of the node {node} does not give the "
            f"permission {permission} to bob; change the list, or set zookeeper_username to a user",
        ):
            bob.ask(request, 10)
    assert alice.ask(Write("/hers", b"2"), 10) == 1
    assert "secret" not in repr(ZooKeeperSettings(address=address, username="a", password="secret"))
    alice.close()
    bob.close()


def test_a_server_that_is_not_there_is_an_error_in_time_and_takes_little_of_the_processor(
    caplog: pytest.LogCaptureFixture,
) -> None:
    address = f"{HOST}:{free_port()}"
    session = ZooKeeper(ZooKeeperSettings(address=address))
    began = time.monotonic()
    with pytest.raises(RegistryConnectionError, match=r"could not be reached within 2.5 s \(.*refused"):
        session.ask(Read("/"), 2.5)
    assert 2.5 <= time.monotonic() - began < 20
    [warning] = [each for each in caplog.messages if address in each]
    assert re.fullmatch(rf"ZooKeeper at {address} cannot be reached \(.*refused\); still trying", warning)
    # A busy machine may make some seconds expensive, but a loop without pauses makes all of them so.
    used = [_processor_time_of_failure(session)]
    while min(used) >= 0.02:  # 1 % of a core
        assert len(used) < 6, used
        used.append(_processor_time_of_failure(session))
    session.close()
    with pytest.raises(ClosedError):
        session.ask(Read("/"), 1)
    wait_until(lambda: not _threads(), 60, "the end of all threads")


def test_a_host_without_an_address_is_the_reason_that_the_error_gives() -> None:
    session = ZooKeeper(ZooKeeperSettings(address="nohost.invalid:2181"))
    with pytest.raises(RegistryConnectionError, match="no address for the name of its host") as caught:
        session.ask(Read("/"), 1)
    assert isinstance(caught.value.__cause__, socket.gaierror)
    session.close()


def test_a_session_that_expires_is_replaced_and_its_end_is_told(
    zookeeper_kafka: ZooKeeperKafka, address: str
) -> None:
    server = zookeeper_kafka.zookeeper
    hosts, slash, chroot = address.partition("/")
    with StallingProxy(hosts) as proxy:
        settings = ZooKeeperSettings(address=f"{proxy.address}{slash}{chroot}", session_timeout=2)
        session = ZooKeeper(settings)
        events: SimpleQueue[SessionEvent] = SimpleQueue()
        session.add_listener(events.put)
        lost = threading.Event()
        session.ask(Create("/mine", ephemeral=True), 10)
        first = session.session_id
        session.ask(Children("/", watch=True), 10, lost.set)
        proxy.stall()
        assert lost.wait(30)
        assert events.get(timeout=30) is SessionEvent.CONNECTED
        assert events.get(timeout=30) is SessionEvent.SUSPENDED
        assert session.unreachable() is not None
        began = time.monotonic()
        with pytest.raises(RegistryConnectionError, match=r"could not be reached within 0.3 s"):
            session.ask(Read("/mine"), 0.3)
        assert time.monotonic() - began < 20
        server.wait_gone(f"/{chroot}/mine")
        proxy.resume()
        assert events.get(timeout=30) is SessionEvent.EXPIRED
        assert events.get(timeout=30) is SessionEvent.CONNECTED
        assert session.unreachable() is None
        assert session.ask(Read("/mine"), 10) is None
        assert session.session_id != first
        proxy.stall()
        began = time.monotonic()
        session.close()
        assert time.monotonic() - began < 20
        wait_until(lambda: not _threads(), 60, "the end of all threads")


def test_a_session_continues_after_a_short_loss_of_the_connection(address: str) -> None:
    hosts, slash, chroot = address.partition("/")
    with StallingProxy(hosts) as proxy:
        session = ZooKeeper(ZooKeeperSettings(address=f"{proxy.address}{slash}{chroot}"))
        session.ask(Create("/mine", ephemeral=True), 10)
        first = session.session_id
        lost = threading.Event()
        session.ask(Children("/", watch=True), 10, lost.set)
        proxy.refuse()
        assert lost.wait(30)
        proxy.resume()
        assert session.ask(Read("/mine"), 10) == Node(b"", ephemeral=True, mine=True)
        assert session.session_id == first
        session.close()


def test_a_session_survives_a_server_that_accepts_a_connection_and_never_answers(address: str) -> None:
    hosts, slash, chroot = address.partition("/")
    with StallingProxy(hosts) as proxy:
        session = ZooKeeper(ZooKeeperSettings(address=f"{proxy.address}{slash}{chroot}", session_timeout=10))
        session.ask(Create("/mine", ephemeral=True), 10)
        first = session.session_id
        lost = threading.Event()
        session.ask(Children("/", watch=True), 10, lost.set)
        proxy.swallow()
        assert lost.wait(30)
        assert session.ask(Read("/mine"), 30) == Node(b"", ephemeral=True, mine=True)
        assert session.session_id == first
        session.close()


def test_a_request_that_waits_ends_when_the_session_is_closed(zookeeper_kafka: ZooKeeperKafka) -> None:
    session = ZooKeeper(ZooKeeperSettings(address=zookeeper_kafka.zookeeper.hosts))
    raised: SimpleQueue[BaseException] = SimpleQueue()

    def pause() -> RegistryDialogue[None]:
        yield RegistryPause(60)

    def play() -> None:
        try:
            session.play(pause(), 120)
        except ClosedError as error:
            raised.put(error)

    thread = threading.Thread(target=play)
    thread.start()
    session.close()
    session.close()
    raised.get(timeout=30)
    thread.join()
    with pytest.raises(KafkaTimeoutError, match=r"operation on ZooKeeper at .* did not end within 0.1 s"):
        ZooKeeper(ZooKeeperSettings(address="localhost")).play(pause(), 0.1)


_FORK = """
import os, sys, warnings
from pyklient.errors import ForkError
from pyklient.config import AdminConfig
from pyklient.net.network_client import NetworkClient
from pyklient.registry.requests import Create, Read

warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of any fork beside threads
client = NetworkClient(AdminConfig(zookeeper=sys.argv[1]))
client.registry.ask(Create("/mine", ephemeral=True), 10)
child = os.fork()
if child == 0:
    try:
        client.registry.ask(Read("/mine"), 10)
    except ForkError:
        client.close()
        os._exit(4)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4, "the child's use is an error"
assert client.registry.ask(Read("/mine"), 10).mine
client.close()
"""


def test_a_forked_child_cannot_use_the_session_and_does_not_end_it(address: str) -> None:
    command = [sys.executable, "-W", "error", "-c", _FORK, address]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")


def _processor_time_of_failure(session: ZooKeeper) -> float:
    """Return the seconds of processor time of a request that fails after two seconds."""
    before = _processor_time()
    with pytest.raises(RegistryConnectionError):
        session.ask(Read("/"), 2)
    return _processor_time() - before


def _processor_time() -> float:
    """Return the seconds of processor time of the calling thread and of the threads of sessions, which do not
    include those of other tests in this process."""
    clocks = [time.pthread_getcpuclockid(thread.ident) for thread in _threads() if thread.ident is not None]
    return time.thread_time() + sum(map(time.clock_gettime, clocks))


_others: set[threading.Thread] = set()
"""The threads that ran before the test began."""


@pytest.fixture(autouse=True)
def _note_other_threads() -> None:
    _others.clear()
    _others.update(threading.enumerate())


def _threads() -> list[threading.Thread]:
    """Return the threads of the sessions that the test has begun."""
    started = set(threading.enumerate()) - _others
    return [thread for thread in started if thread.name.startswith("pyklient-zookeeper")]

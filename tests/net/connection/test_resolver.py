"""Lookups of host names: limited in time and in threads, whatever the system's function does."""

import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pyklient import Admin
from pyklient.errors import BrokerConnectionError, ClosedError, KafkaTimeoutError
from pyklient.net.connection.resolver import Resolver, SlowLookupError, resolve
from pyklient.net.network_client import NetworkClient
from tests.net.scripted import ScriptedBroker, config_for
from tests.servers.process import wait_until

FOUND = [(int(socket.AF_INET), int(socket.SOCK_STREAM), 6, ("127.0.0.1", 9092))]


class NameServer:
    """A replacement for the system's function that returns 127.0.0.1 when the test allows it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.answers = threading.Event()
        self.asked: list[str] = []
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(self, host: str, *_: object, **__: object) -> list[Any]:
        self.asked.append(host)
        self.answers.wait(60)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    server = NameServer(monkeypatch)
    yield server
    server.answers.set()
    wait_until(
        lambda: not [each for each in threading.enumerate() if each.name == "pyklient-resolver"],
        10,
        "the end of all lookups",
    )


def patient() -> float:
    return 0.05


def test_a_name_server_that_does_not_answer_takes_no_longer_than_the_caller_allows(
    name_server: NameServer,
) -> None:
    client = NetworkClient(config_for(bootstrap_servers="one.invalid:9092,two.invalid:9092"))
    said = r"^No broker answered within 2 s .*'(one|two)\.invalid': the addresses of \1\.invalid were not "
    with pytest.raises(KafkaTimeoutError, match=said):
        client.refresh_metadata((), 2)
    wait_until(lambda: len(name_server.asked) == 2, 60, "both lookups, each once however often tried")
    assert sorted(name_server.asked) == ["one.invalid", "two.invalid"]
    client.close()


def test_a_call_of_a_client_is_as_bounded(name_server: NameServer) -> None:
    with (
        Admin("slow.invalid") as admin,
        pytest.raises(KafkaTimeoutError, match=r"slow\.invalid': the addresses of slow\.invalid"),
    ):
        admin.topics(timeout=1)


def test_closing_the_client_ends_the_wait(name_server: NameServer) -> None:
    client = NetworkClient(config_for(bootstrap_servers="slow.invalid"))
    failures: list[Exception] = []

    def ask() -> None:
        try:
            client.refresh_metadata((), 60)
        except ClosedError as error:
            failures.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_until(lambda: bool(name_server.asked), 60, "the lookup")
    client.close()
    thread.join(30)
    assert len(failures) == 1
    assert not name_server.answers.is_set()


def test_a_name_that_is_found_late_is_found(name_server: NameServer) -> None:
    with ScriptedBroker() as broker:
        client = NetworkClient(config_for(bootstrap_servers=f"late.invalid:{broker.port}"))
        timer = threading.Timer(0.1, name_server.answers.set)
        timer.start()
        assert client.refresh_metadata((), 30).nodes
        timer.join()
        client.close()


def test_lookups_run_in_so_many_threads_and_the_others_wait_for_them(name_server: NameServer) -> None:
    resolver = Resolver(most_threads=2)
    for host in ("a", "b"):
        with pytest.raises(SlowLookupError):
            resolver.resolve(host, 9092, patient, 0.05)
    wait_until(lambda: sorted(name_server.asked) == ["a", "b"], 60, "two lookups")
    for host in ("a", "b"):
        with pytest.raises(SlowLookupError, match=r"^the addresses of \S+ were not found within \S+ s$"):
            resolver.resolve(host, 9092, patient, 0.05)
    with pytest.raises(SlowLookupError, match=r"because lookups of other names hang: a, b$"):
        resolver.resolve("c", 9092, patient, 0.1)
    assert sorted(name_server.asked) == ["a", "b"]
    name_server.answers.set()
    assert resolver.resolve("c", 9092, patient, 30) == FOUND


def test_addresses_that_were_found_serve_while_a_new_lookup_is_stuck(name_server: NameServer) -> None:
    resolver = Resolver()
    name_server.answers.set()
    assert resolver.resolve("known", 1, patient, 30)[0][3] == ("127.0.0.1", 1)
    name_server.answers.clear()
    assert resolver.resolve("known", 9092, patient, 0.2) == FOUND
    wait_until(lambda: name_server.asked == ["known", "known"], 60, "a new lookup each time")


def test_an_error_of_the_lookup_is_raised_to_all_who_wait(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    client = NetworkClient(config_for(bootstrap_servers="flaky.invalid", bootstrap_refused_timeout_ms=0))
    # On a busy machine, the time may be over before the last lookup has begun: then the error says so.
    said = r"Temporary failure in name resolution|the lookup of flaky\.invalid did not begin within \S+ s\)"
    with pytest.raises(KafkaTimeoutError, match=said) as caught:
        client.refresh_metadata((), 2.0)
    assert isinstance(caught.value.__cause__, BrokerConnectionError)
    assert "Temporary failure in name resolution" in caplog.text
    client.close()


@pytest.mark.parametrize(
    ("host", "family", "address"),
    [
        ("127.0.0.1", socket.AF_INET, ("127.0.0.1", 9092)),
        ("::1", socket.AF_INET6, ("::1", 9092, 0, 0)),
    ],
)
def test_an_address_is_not_looked_up(
    name_server: NameServer, host: str, family: int, address: tuple[object, ...]
) -> None:
    assert resolve(host, 9092, patient, 0.1) == [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, address)]
    assert not name_server.asked


FORKED = """
import os, socket, threading, time
from pyklient.net.connection import resolver
looking = socket.getaddrinfo
began = threading.Event()
def stuck(*_, **__):
    began.set()
    time.sleep(600)
socket.getaddrinfo = stuck
try:
    resolver.resolve("localhost", 1, lambda: 0.05, 0.1)
except resolver.SlowLookupError:
    began.wait(60)
child = os.fork()
if not child:
    socket.getaddrinfo = looking
    os._exit(0 if resolver.resolve("localhost", 1, lambda: 0.05, 30) else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_forked_child_looks_up_what_the_parent_is_stuck_with() -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKED],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout == "0\n"

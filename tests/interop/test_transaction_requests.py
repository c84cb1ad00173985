"""Requests about transactions get the same answers from the reference broker as from Kafka 4.3.1."""

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

import pytest

from pyklient import Admin
from pyklient.broker import Broker
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import FindCoordinatorRequest, FindCoordinatorResponse
from tests.broker.transactional_requests import Identity, Transactions
from tests.broker.wire_client import WireClient
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.process import wait_until

pytestmark = pytest.mark.java

_T = TypeVar("_T")

_DEADLINE = 30.0
_SOON = (
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
"""The errors after which a request is sent again, because a new topic is not ready yet, or because a
transaction is being ended."""


class Client:
    """Sends requests to one broker, and writes down what it answers."""

    def __init__(self, client: WireClient, name: str) -> None:
        self.client = client
        self.log: list[tuple[str, Any]] = []
        self.transactions = Transactions(client, name, topic=name, group=name)
        for kind in (0, 1):
            self._settled(partial(self._found, kind))

    def _found(self, kind: int) -> int:
        request = FindCoordinatorRequest(coordinator_keys=[self.transactions.transactional_id], key_type=kind)
        return self.client.ask(request, FindCoordinatorResponse).coordinators[0].error_code

    def note(self, what: str, work: Callable[[], _T]) -> _T:
        """Do *work* until the answer is not one that lasts for a moment only, and write the answer down."""
        answer = self._settled(work)
        self.log.append((what, answer))
        return answer

    def init(self, what: str, *arguments: Any, **options: Any) -> Identity:
        """Ask for a producer id, and write down the error and the epoch."""
        code, identity = self._settled(lambda: self.transactions.init(*arguments, **options))
        self.log.append((what, (code, identity[1])))
        return identity

    def take_over(self, what: str) -> None:
        """Let another producer start while a transaction is open, which aborts the transaction, and write
        down the state."""
        assert self.transactions.init()[0] == ErrorCode.CONCURRENT_TRANSACTIONS
        self._wait_for_markers()
        found = self.transactions.described()
        self.log.append((what, (found.transaction_state, found.producer_epoch)))

    def end(self, what: str, identity: Identity, **options: Any) -> Identity:
        """End a transaction, and write down the error and the epoch."""
        code, following = self._settled(lambda: self.transactions.end(identity, **options))
        self.log.append((what, (code, following[1])))
        self._wait_for_markers()
        return following

    def _wait_for_markers(self) -> None:
        """Wait until all markers are written. Kafka does so after the response, and accepts late requests
        until then."""
        wait_until(
            lambda: not self.transactions.described().transaction_state.startswith("Prepare"),
            _DEADLINE,
            "the markers are written",
        )

    def _settled(self, work: Callable[[], _T]) -> _T:
        deadline = time.monotonic() + _DEADLINE
        while True:
            answer = work()
            code = answer[0] if isinstance(answer, tuple) else answer
            if code not in _SOON or time.monotonic() > deadline:
                return answer
            time.sleep(0.01)


def version_2(client: Client) -> None:
    send, note = client.transactions.send, client.note
    first = client.init("a producer starts")
    note("no transactional id", partial(send, first, transactional_id=None))
    note("another transactional id", partial(send, first, transactional_id="other"))
    note("another epoch", partial(send, (first[0], first[1] + 5)))
    note("first record", partial(send, first))
    second = client.end("commit", first)
    client.end("commit again", first)
    client.end("abort what is committed", first, commit=False)
    note("a late record", partial(send, first))
    note("second transaction", partial(send, second))
    client.end("commit with the epoch before", first)
    third = client.end("abort", second, commit=False)
    client.end("abort again", second, commit=False)
    client.end("commit without a transaction", third)
    fourth = client.end("abort without a transaction", third, commit=False)
    note("an offset", lambda: client.transactions.commit_offset(fourth, 10))
    member: dict[str, Any] = {"generation_id": 5, "member_id": "gone"}
    note("of a former member", lambda: client.transactions.commit_offset(fourth, 10, **member))
    note("of a former generation", lambda: client.transactions.commit_offset(fourth, 10, generation_id=5))
    fifth = client.end("commit the offset", fourth)
    note("a late offset", lambda: client.transactions.commit_offset(fourth, 10))
    note("state", lambda: client.transactions.described().transaction_state)
    client.init("the producer continues", fifth)
    client.init("the response was lost", fifth)
    client.init("a zombie continues", first)
    last = client.init("another producer starts")
    note("an open transaction", partial(send, last))
    client.take_over("another producer starts while a transaction is open")
    note("the first sends", partial(send, last))
    client.end("the first aborts", last, commit=False)
    client.end("the first commits", last)
    client.init("the first continues", last)
    client.init("yet another producer starts")
    client.init("a zombie of version 3 continues", first, version=3)


def version_1(client: Client) -> None:
    send, note, add = client.transactions.send, client.note, client.transactions.add
    commit = client.transactions.commit_offset
    old = client.init("a producer starts", version=4)
    for version in (10, 11):
        note(f"a record without its partition, v{version}", partial(send, old, version=version))
    client.end("commit without a transaction", old, version=4)
    client.end("abort without a transaction", old, version=4, commit=False)
    note("a partition that does not exist", lambda: add(old, 0, 9))
    note("a partition", lambda: add(old, 0))
    note("the same partition", lambda: add(old, 0))
    note("a record", lambda: send(old, version=11))
    client.end("commit", old, version=4)
    client.end("commit again", old, version=4)
    client.end("abort what is committed", old, version=4, commit=False)
    note("a late record", partial(send, old, version=11))
    for version in (3, 4):
        note(f"an offset without its group, v{version}", partial(commit, old, 1, version=version))
    note("a group", lambda: client.transactions.add_group(old))
    note("an offset", lambda: commit(old, 10, version=4))
    client.take_over("a second producer starts while a transaction is open")
    client.init("the first continues", old, version=4)
    client.init("a second producer starts", version=4)
    for version in (1, 2, 4):
        client.end(f"the first commits, v{version}", old, version=version)
        if version < 4:
            note(f"the first adds, v{version}", partial(add, old, 0, version=version))
    note("the first adds a group", lambda: client.transactions.add_group(old))
    note("the first sends", partial(send, old, version=11))
    for timeout_ms in (0, -1, 900_001):
        client.init(f"time-out {timeout_ms}", timeout_ms=timeout_ms)
    nobody = Transactions(client.client, client.transactions.transactional_id + "x")
    note("an id that is not known", lambda: nobody.end(old)[0])
    note("described", lambda: nobody.described().error_code)


@pytest.fixture
def reference() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.mark.parametrize("scenario", [version_2, version_1])
def test_a_transactional_producer_gets_the_answers_of_kafka(
    newest_kafka: KraftCluster, reference: Broker, new_name: NewName, scenario: Callable[[Client], None]
) -> None:
    name = new_name()
    logs = []
    for address in (newest_kafka.bootstrap_servers, reference.bootstrap_servers):
        with Admin(address) as admin:
            admin.create_topic(name, 1)
        with WireClient(_At(int(address.rpartition(":")[2]))) as wire:
            client = Client(wire, name)
            scenario(client)
            logs.append(client.log)
    kafka, ours = logs
    assert ours == kafka


class _At:
    """The address of a broker."""

    def __init__(self, port: int) -> None:
        self.port = port

"""The check before each commit of a member of a ZooKeeper group, without a ZooKeeper."""

import threading
from dataclasses import dataclass
from typing import Any

import pytest

from pyklient import OffsetAndMetadata, TopicPartition
from pyklient.consumer.group.zookeeper import fenced_offset_storage
from pyklient.consumer.group.zookeeper.fenced_offset_storage import FencedOffsetStorage
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.errors import RegistryConnectionError, SessionExpiredError

AT = {TopicPartition("t", 0): OffsetAndMetadata(3)}


@dataclass
class Session:
    """A session that answers every request."""

    session_id: int | None = 1

    def ask(self, request: object, timeout: float) -> None:
        """Answer."""


class Accepting:
    """An offset storage that accepts all positions."""

    def commit(self, *_: object, once: bool) -> dict[TopicPartition, object]:
        """Accept them."""
        return {}

    def stop_retrying(self) -> None:
        """Never retries."""


class Unreachable(Session):
    """A session without a connection. ``asked`` is set by the first request."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def ask(self, request: object, timeout: float) -> None:
        """Fail."""
        self.asked.set()
        raise RegistryConnectionError("no connection")

    def unreachable(self) -> RegistryConnectionError:
        """Return the reason."""
        return RegistryConnectionError("unreachable")


def test_a_commit_is_accepted_only_in_the_session_and_the_generation_of_the_assignment() -> None:
    session: Any = Session()
    member = ZooKeeperMember("g", "g_a", "range")
    accepting: Any = Accepting()
    store = FencedOffsetStorage(accepting, session, member)
    member.begin_generation(1)
    first = member.identity
    assert store.commit(AT, first, 1.0) == {}
    session.session_id = 2
    rejected = store.commit(AT, first, 1.0)
    assert [(type(each.error), each.outdated) for each in rejected.values()] == [(SessionExpiredError, True)]
    member.begin_generation(2)
    assert store.commit(AT, first, 1.0).keys() == AT.keys()
    assert store.commit(AT, member.identity, 1.0) == {}


def test_a_commit_that_pauses_before_its_next_attempt_ends_as_soon_as_the_client_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fenced_offset_storage, "_PAUSE", 30.0)
    session: Any = Unreachable()
    accepting: Any = Accepting()
    member = ZooKeeperMember("g", "g_a", "range")
    store = FencedOffsetStorage(accepting, session, member)
    failures: list[RegistryConnectionError] = []

    def commit() -> None:
        try:
            store.commit(AT, member.identity, 60.0)
        except RegistryConnectionError as error:
            failures.append(error)

    thread = threading.Thread(target=commit)
    thread.start()
    assert session.asked.wait(30)
    store.stop_retrying()
    thread.join(30)
    # The failure of the attempt, if the client closed before the pause had begun.
    assert [str(error) for error in failures] in (["unreachable"], ["no connection"])

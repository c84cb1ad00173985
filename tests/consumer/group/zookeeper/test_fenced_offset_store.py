"""The check before each commit of a member of a ZooKeeper group, without a ZooKeeper."""

from dataclasses import dataclass
from typing import Any

from pyklient import OffsetAndMetadata, TopicPartition
from pyklient.consumer.group.zookeeper.fenced_offset_store import FencedOffsetStore
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.errors import SessionExpiredError

AT = {TopicPartition("t", 0): OffsetAndMetadata(3)}


@dataclass
class Session:
    """A session that answers every request."""

    session_id: int | None = 1

    def ask(self, request: object, timeout: float) -> None:
        """Answer."""


class Accepting:
    """An offset store that accepts all positions."""

    def commit(self, *_: object, once: bool) -> dict[TopicPartition, object]:
        """Accept them."""
        return {}


def test_a_commit_is_accepted_only_in_the_session_and_the_generation_of_the_assignment() -> None:
    session: Any = Session()
    member = ZooKeeperMember("g", "g_a", "range")
    accepting: Any = Accepting()
    store = FencedOffsetStore(accepting, session, member)
    member.begin_generation(1)
    first = member.identity
    assert store.commit(AT, first, 1.0) == {}
    session.session_id = 2
    rejected = store.commit(AT, first, 1.0)
    assert [(type(each.error), each.outdated) for each in rejected.values()] == [(SessionExpiredError, True)]
    member.begin_generation(2)
    assert store.commit(AT, first, 1.0).keys() == AT.keys()
    assert store.commit(AT, member.identity, 1.0) == {}

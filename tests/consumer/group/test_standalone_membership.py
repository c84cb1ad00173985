"""A client without a group that cannot begin to read new partitions."""

from typing import Any

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.standalone_membership import StandaloneMembership
from pyklient.errors import BrokerConnectionError


class NoMetadata:
    """A client whose metadata cannot be read."""

    @property
    def metadata(self) -> Any:
        raise BrokerConnectionError("no broker answers")


class CountedCommits:
    """An assignment handler that counts commits, and ends the membership at the first one."""

    def __init__(self, membership: StandaloneMembership) -> None:
        self.commits = 0
        self._membership = membership

    def commit_if_due(self, now: float) -> None:
        self.commits += 1
        self._membership._closing.set()


def test_automatic_commits_continue_while_new_partitions_cannot_be_begun() -> None:
    client: Any = NoMetadata()
    membership = StandaloneMembership(client, ConsumerConfig(group_id="g"))
    handler: Any = CountedCommits(membership)
    membership._handler = handler
    membership.thread.start()
    membership.thread.join(3)
    membership._closing.set()
    assert handler.commits == 1

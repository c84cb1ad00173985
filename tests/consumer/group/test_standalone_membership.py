"""A client without a group that cannot begin to read new partitions."""

from collections.abc import Callable
from typing import Any

import pytest

from pyklient.consumer.group.membership_thread import MembershipThread
from pyklient.consumer.group.standalone_membership import StandaloneLoop
from pyklient.consumer.group.subscription import Subscription
from pyklient.errors import BrokerConnectionError


class NoMetadata:
    """A client whose metadata cannot be read."""

    @property
    def metadata(self) -> Any:
        raise BrokerConnectionError("no broker answers")


class CountedCommits:
    """An assignment handler that counts commits, and calls *ends* at each."""

    def __init__(self, ends: Callable[[], object]) -> None:
        self.commits = 0
        self._ends = ends

    def commit_if_due(self, now: float) -> None:
        self.commits += 1
        self._ends()


def test_automatic_commits_continue_while_new_partitions_cannot_be_begun() -> None:
    client: Any = NoMetadata()
    handler: Any = CountedCommits(lambda: loop.close())
    thread = MembershipThread("member")
    loop = StandaloneLoop(client, handler, Subscription(), thread)
    thread.start(loop.run)
    thread.join(30)
    assert handler.commits == 1
    assert not thread.running


class Failing:
    """An assignment handler whose automatic commit fails with *error*. It keeps what it is told."""

    def __init__(self, error: Exception) -> None:
        self.told: list[object] = []
        self._error = error

    def commit_if_due(self, now: float) -> None:
        raise self._error

    def fail(self, error: Exception) -> None:
        self.told.append(error)

    def tell_all_lost(self) -> None:
        self.told.append("lost")


def test_an_unexpected_error_ends_the_loops_with_this_error(caplog: pytest.LogCaptureFixture) -> None:
    client: Any = NoMetadata()
    error = LookupError("unexpected")
    handler: Any = Failing(error)
    thread = MembershipThread("member")
    thread.start(StandaloneLoop(client, handler, Subscription(), thread).run)
    thread.join(30)
    assert handler.told == [error, "lost"]
    assert "please report this" in caplog.text

"""The wait for members that the other system coordinates, played with lists of members and a clock of the
test."""

import pytest

from pyklient import KafkaTimeoutError
from pyklient.consumer.group.change_of_coordination.end_of_members import await_end_of_members
from pyklient.registry.requests import Children, RegistryDialogue, RegistryPause

_IDS = Children("/consumers/g/ids")


class Wait:
    """The wait of a member of group g for members in ZooKeeper, first for *members*."""

    def __init__(self, members: list[str], timeout: float = 1.0) -> None:
        self.now = 100.0
        self.dialogue = await_end_of_members(
            "g", "zookeeper", members, self._look, RegistryPause, timeout, lambda: self.now
        )

    def _look(self) -> RegistryDialogue[list[str]]:
        members: list[str] = yield _IDS
        return members

    def ends(self) -> bool:
        """Return True if the wait ends with its next step."""
        return next(self.dialogue, None) is None

    def pause(self) -> float:
        """Let the wait pause, and return for how many seconds it pauses."""
        step = next(self.dialogue)
        assert isinstance(step, RegistryPause)
        self.now += step.seconds
        assert next(self.dialogue) == _IDS
        return step.seconds

    def answer(self, members: list[str]) -> float:
        """Answer a look with *members*. Return for how many seconds the wait then pauses."""
        step = self.dialogue.send(members)
        assert isinstance(step, RegistryPause)
        self.now += step.seconds
        assert next(self.dialogue) == _IDS
        return step.seconds


def test_a_group_without_members_of_the_other_kind_is_joined_at_once() -> None:
    assert Wait([]).ends()


def test_the_end_of_the_last_member_ends_the_wait() -> None:
    wait = Wait(["g_a", "g_b"])
    wait.pause()
    wait.answer(["g_b"])
    with pytest.raises(StopIteration):
        wait.dialogue.send([])


def test_members_that_stay_are_named_when_the_time_is_over() -> None:
    members = [f"g_{number}" for number in range(7)]
    wait = Wait(members)
    pauses = [wait.pause(), *(wait.answer(members) for _ in range(4))]
    assert sum(pauses) == pytest.approx(1.0)
    wait.now = 101.0
    with pytest.raises(
        KafkaTimeoutError,
        match=r"^group g .* coordination='zookeeper' after 1\.0 s: g_0, g_1, g_2, g_3, g_4 …\. A member with "
        "coordination='kafka'",
    ):
        wait.answer(members)


def test_the_time_of_slow_looks_counts() -> None:
    wait = Wait(["g_a"])
    wait.pause()
    wait.now += 0.7
    assert wait.answer(["g_a"]) == pytest.approx(0.1)
    wait.now += 2
    with pytest.raises(KafkaTimeoutError, match=r"after 3\.0 s: g_a\."):
        wait.answer(["g_a"])

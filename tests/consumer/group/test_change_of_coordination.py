"""The wait for members that ZooKeeper still coordinates, played with lists of members."""

import pytest

from pyklient import ConsumerConnector, KafkaTimeoutError
from pyklient.consumer.group.change_of_coordination import await_end_of_members
from pyklient.errors import RegistryConnectionError
from pyklient.registry.requests import Children, Pause
from tests.consumer.feed import Feed

_IDS = Children("/consumers/g/ids")


@pytest.mark.parametrize("answer", [None, []])
def test_a_group_without_members_in_zookeeper_is_joined_at_once(answer: list[str] | None) -> None:
    waiting = await_end_of_members("g", 1.0)
    assert next(waiting) == _IDS
    with pytest.raises(StopIteration):
        waiting.send(answer)


def test_the_end_of_the_last_member_ends_the_wait() -> None:
    waiting = await_end_of_members("g", 1.0)
    for members in (["g_a", "g_b"], ["g_b"]):
        assert next(waiting) == _IDS
        assert isinstance(waiting.send(members), Pause)
    assert next(waiting) == _IDS
    with pytest.raises(StopIteration):
        waiting.send([])


def test_members_that_stay_are_named_when_the_time_is_over() -> None:
    waiting = await_end_of_members("g", 1.0)
    pauses: list[Pause] = []

    def answer_all() -> None:
        for step in waiting:
            assert step == _IDS
            pause = waiting.send([f"g_{number}" for number in range(7)])
            assert isinstance(pause, Pause)
            pauses.append(pause)

    with pytest.raises(KafkaTimeoutError, match=r"^group g .* after 1 s: g_0, g_1, g_2, g_3, g_4 …\. A"):
        answer_all()
    assert 1.0 <= sum(pause.seconds for pause in pauses) < 1.5


def test_a_member_does_not_join_if_zookeeper_cannot_tell_who_is_there(feed: Feed) -> None:
    with (
        ConsumerConnector(
            feed.bootstrap_servers, group_id="g", zookeeper="127.0.0.1:1", zookeeper_connection_timeout_ms=300
        ) as connector,
        pytest.raises(RegistryConnectionError, match=r"127\.0\.0\.1:1 could not be reached within 0\.3 s"),
    ):
        connector.stream(feed.topic())

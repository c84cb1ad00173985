"""Dialogues played with a list of answers: no thread, no socket, no waiting."""

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from pyklient.errors import (
    AuthenticationError,
    BrokerConnectionError,
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
)
from pyklient.net.backoff import Backoff
from pyklient.net.dialogue import ANY, Ask, Dialogue, Pause, Refresh, Step, insist, play
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.net.lookups.list_offsets import ListedOffset, list_offsets
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataResponse,
)
from pyklient.topic_partition import TopicPartition

T = TypeVar("T")

_COORDINATOR_LOADING, _NOT_LEADER, _UNKNOWN_TOPIC, _NOT_ALLOWED = 14, 6, 3, 29
_A0, _A1, _B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


def played(conversation: Dialogue[T], answers: Sequence[Any]) -> tuple[T, list[Step]]:
    """Its result and the steps it took, given *answers* to all of them but the pauses. An exception among
    the answers is a network failure."""
    waiting = list(answers)
    steps: list[Step] = []
    try:
        step = next(conversation)
        while True:
            steps.append(step)
            answer = None if isinstance(step, Pause) else waiting.pop(0)
            step = conversation.throw(answer) if isinstance(answer, KafkaError) else conversation.send(answer)
    except StopIteration as end:
        assert not waiting, f"never asked for: {waiting}"
        return end.value, steps


def cluster(leaders: dict[TopicPartition, int], *, nodes: Sequence[int] = (1, 2), error: int = 0) -> Metadata:
    topics: dict[str, MetadataResponse.MetadataResponseTopic] = {}
    for partition, leader in leaders.items():
        topic = topics.setdefault(
            partition.topic, MetadataResponse.MetadataResponseTopic(name=partition.topic, error_code=error)
        )
        topic.partitions.append(
            MetadataResponse.MetadataResponsePartition(partition_index=partition.partition, leader_id=leader)
        )
    brokers = [MetadataResponse.MetadataResponseBroker(node_id=node, host="h", port=node) for node in nodes]
    return Metadata().updated(
        MetadataResponse(brokers=brokers, topics=list(topics.values())), all_topics=True
    )


def offsets(found: dict[TopicPartition, int], *, error: int = 0) -> ListOffsetsResponse:
    topics = [
        ListOffsetsResponse.ListOffsetsTopicResponse(
            name=partition.topic,
            partitions=[
                ListOffsetsResponse.ListOffsetsPartitionResponse(
                    partition_index=partition.partition, offset=offset, error_code=error
                )
            ],
        )
        for partition, offset in found.items()
    ]
    return ListOffsetsResponse(topics=topics)


def asked(steps: Sequence[Step]) -> list[tuple[int, set[TopicPartition]]]:
    """To whom the ListOffsets requests among *steps* went, and for what."""
    return [
        (
            step.to,
            {
                TopicPartition(topic.name, partition.partition_index)
                for topic in step.request.topics
                for partition in topic.partitions
            },
        )
        for step in steps
        if isinstance(step, Ask) and isinstance(step.request, ListOffsetsRequest)
    ]


def test_the_coordinator_is_asked_for_until_it_is_there() -> None:
    loading = FindCoordinatorResponse(error_code=_COORDINATOR_LOADING)
    node, steps = played(
        find_coordinator("g"),
        [BrokerConnectionError("gone"), loading, FindCoordinatorResponse(node_id=2), cluster({})],
    )
    assert node == 2
    asks = [step for step in steps if isinstance(step, Ask)]
    assert all(step.to == ANY and step.max_version == 3 for step in asks)
    assert [step.request for step in asks] == [FindCoordinatorRequest(key="g")] * 3
    reasons = [str(step.because) for step in steps if isinstance(step, Pause)]
    assert "gone" in reasons[0]
    assert "finding the coordinator of 'g'" in reasons[1]


def test_a_coordinator_unknown_to_the_metadata_is_refreshed_for() -> None:
    found = FindCoordinatorResponse(node_id=3, host="h3", port=9)
    alone, whole = cluster({}), cluster({}, nodes=(1, 2, 3))
    node, steps = played(find_coordinator("g"), [found, alone, alone, found, alone, whole])
    assert node == 3
    assert [type(step) for step in steps] == [Ask, Refresh, Refresh, Pause, Ask, Refresh, Refresh]


def test_a_refusal_to_coordinate_is_raised() -> None:
    with pytest.raises(BrokerError, match="coordinator of 'g'") as caught:
        played(find_coordinator("g"), [FindCoordinatorResponse(error_code=30)])
    assert caught.value.name == "GROUP_AUTHORIZATION_FAILED"


def test_offsets_are_asked_of_each_leader_once() -> None:
    wanted = {_A0: -1, _A1: -2, _B0: 1234}
    answers = [cluster({_A0: 1, _A1: 2, _B0: 1}), offsets({_A0: 10, _B0: 30}), offsets({_A1: 20})]
    found, steps = played(list_offsets(wanted, isolation_level=1), answers)
    assert found == {
        _A0: ListedOffset(10, -1, -1),
        _A1: ListedOffset(20, -1, -1),
        _B0: ListedOffset(30, -1, -1),
    }
    assert asked(steps) == [(1, {_A0, _B0}), (2, {_A1})]
    request = next(step.request for step in steps if isinstance(step, Ask))
    assert isinstance(request, ListOffsetsRequest)
    assert request.isolation_level == 1
    assert {topic.name: topic.partitions[0].timestamp for topic in request.topics} == {"a": -1, "b": 1234}
    assert request.replica_id == -1


def test_offsets_are_asked_of_the_new_leader_where_leadership_moved() -> None:
    answers = [
        cluster({_A0: 1, _A1: 1}),
        ListOffsetsResponse(
            topics=[*offsets({_A0: 10}).topics, *offsets({_A1: -1}, error=_NOT_LEADER).topics]
        ),
        cluster({_A0: 1, _A1: 2}),
        offsets({_A1: 20}),
    ]
    found, steps = played(list_offsets({_A0: -1, _A1: -1}), answers)
    assert (found[_A0].offset, found[_A1].offset) == (10, 20)
    assert asked(steps) == [(1, {_A0, _A1}), (2, {_A1})]
    assert [step.known_ok for step in steps if isinstance(step, Refresh)] == [True, False]


def test_offsets_wait_for_a_leader_and_for_a_broker_that_is_away() -> None:
    answers = [
        cluster({_A0: -1}),
        cluster({_A0: 1}),
        BrokerConnectionError("down"),
        cluster({_A0: 1}),
        offsets({_A0: 7}),
    ]
    found, steps = played(list_offsets({_A0: -1}), answers)
    assert found[_A0].offset == 7
    assert len([step for step in steps if isinstance(step, Pause)]) == 2


def test_offsets_of_a_topic_that_never_appears_are_given_up_soon() -> None:
    missing = cluster({_A0: -1}, error=_UNKNOWN_TOPIC)
    with pytest.raises(BrokerError, match="finding the leader of a-0: no such topic"):
        played(list_offsets({_A0: -1}), [missing] * 5)


def test_offsets_that_are_refused_are_an_error() -> None:
    with pytest.raises(BrokerError, match="offsets of a-0"):
        played(list_offsets({_A0: -1}), [cluster({_A0: 1}), offsets({_A0: -1}, error=_NOT_ALLOWED)])
    with pytest.raises(AuthenticationError):
        played(list_offsets({_A0: -1}), [cluster({_A0: 1}), AuthenticationError("who are you")])


def test_an_old_broker_answers_with_a_list_of_offsets() -> None:
    old = offsets({_A0: -1})
    old.topics[0].partitions[0].old_style_offsets = [42]
    found, _ = played(list_offsets({_A0: -1}), [cluster({_A0: 1}), old])
    assert found[_A0].offset == 42


def test_insisting_stops_at_a_failure_that_does_not_pass() -> None:
    answer = HeartbeatResponse()
    ask = Ask(1, HeartbeatRequest())
    response, steps = played(insist(ask), [KafkaTimeoutError("late"), answer])
    assert response is answer
    assert [type(step) for step in steps] == [Ask, Pause, Ask]
    with pytest.raises(AuthenticationError):
        played(insist(ask), [AuthenticationError("no")])


class Instant:
    """A network that answers at once: with *failure*, if given, else with a heartbeat."""

    def __init__(self, failure: KafkaError | None = None) -> None:
        self.failure = failure
        self.pauses: list[float] = []

    def ask(self, step: Ask, timeout: float) -> HeartbeatResponse:
        if self.failure is not None:
            raise self.failure
        return HeartbeatResponse()

    def refresh(self, step: Refresh, timeout: float) -> Metadata:
        return cluster({})

    def pause(self, seconds: float) -> None:
        self.pauses.append(seconds)


def test_the_driver_returns_what_the_dialogue_returns() -> None:
    def dialogue() -> Dialogue[int]:
        metadata = yield Refresh(())
        yield Ask(ANY, HeartbeatRequest())
        yield Pause(0.25)
        return len(metadata.nodes)

    network = Instant()
    assert play(dialogue(), network, 1, Backoff(0.1, 1)) == 2
    assert network.pauses == [0.25]


def test_a_pause_is_cut_short_where_the_time_allowed_ends_before_it() -> None:
    def dialogue() -> Dialogue[None]:
        yield Pause(60.0)

    network = Instant()
    play(dialogue(), network, 2, Backoff(0, 0))
    (pause,) = network.pauses
    assert 0 < pause <= 2


class NotedBackoff(Backoff):
    """No pause at all; notes what it was asked."""

    def __init__(self) -> None:
        super().__init__(0, 0)
        self.asked: list[int] = []

    def pause(self, failures: int) -> float:
        self.asked.append(failures)
        return 0.0


def test_the_driver_counts_the_pauses_of_a_dialogue_for_its_back_off() -> None:
    def dialogue() -> Dialogue[None]:
        for _ in range(4):
            yield Ask(ANY, HeartbeatRequest())
            yield Pause()

    backoff = NotedBackoff()
    play(dialogue(), Instant(), 10, backoff)
    assert backoff.asked == [1, 2, 3, 4]


def test_the_driver_gives_up_in_time_and_names_the_last_failure() -> None:
    closed: list[bool] = []

    def dialogue() -> Dialogue[None]:
        try:
            yield from insist(Ask(ANY, HeartbeatRequest()))
        finally:
            closed.append(True)

    network = Instant(BrokerConnectionError("broker 1 is down"))
    with pytest.raises(KafkaTimeoutError, match=r"within 0\.05 s; the last failure: broker 1 is down"):
        play(dialogue(), network, 0.05, Backoff(0.01, 0.03))
    assert closed == [True]
    assert 0.008 <= network.pauses[0] <= 0.012
    assert max(network.pauses) <= 0.036, "pauses grow to their limit, and end with the time allowed"


def test_a_failure_that_the_dialogue_does_not_catch_is_raised() -> None:
    def dialogue() -> Dialogue[None]:
        yield Ask(ANY, HeartbeatRequest())

    with pytest.raises(AuthenticationError):
        play(dialogue(), Instant(AuthenticationError("no")), 1, Backoff(0, 0))

"""ListOffsets, with a list of responses."""

from collections.abc import Sequence

import pytest

from pyklient.errors import (
    AuthenticationError,
    BrokerConnectionError,
    BrokerError,
    ProtocolError,
    UnsupportedVersionError,
)
from pyklient.net.dialogue import Ask, Pause, Refresh, Step
from pyklient.net.lookups.list_offsets import ListedOffset, list_offsets
from pyklient.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from pyklient.topic_partition import TopicPartition
from tests.net.lookups.played import A0, A1, B0, cluster, played

_NOT_LEADER, _UNKNOWN_TOPIC, _NOT_ALLOWED = 6, 3, 29


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
    """Return the recipients of the ListOffsets requests in *steps*, and the partitions that they ask for."""
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


def test_offsets_are_asked_of_each_leader_once() -> None:
    wanted = {A0: -1, A1: -2, B0: 1234}
    answers = [cluster({A0: 1, A1: 2, B0: 1}), offsets({A0: 10, B0: 30}), offsets({A1: 20})]
    found, steps = played(list_offsets(wanted, isolation_level=1), answers)
    assert found == {
        A0: ListedOffset(10, -1, -1),
        A1: ListedOffset(20, -1, -1),
        B0: ListedOffset(30, -1, -1),
    }
    assert asked(steps) == [(1, {A0, B0}), (2, {A1})]
    request = next(step.request for step in steps if isinstance(step, Ask))
    assert isinstance(request, ListOffsetsRequest)
    assert request.isolation_level == 1
    assert {topic.name: topic.partitions[0].timestamp for topic in request.topics} == {"a": -1, "b": 1234}
    assert request.replica_id == -1


def test_offsets_are_asked_of_the_new_leader_where_leadership_moved() -> None:
    answers = [
        cluster({A0: 1, A1: 1}),
        ListOffsetsResponse(topics=[*offsets({A0: 10}).topics, *offsets({A1: -1}, error=_NOT_LEADER).topics]),
        cluster({A0: 1, A1: 2}),
        offsets({A1: 20}),
    ]
    found, steps = played(list_offsets({A0: -1, A1: -1}), answers)
    assert (found[A0].offset, found[A1].offset) == (10, 20)
    assert asked(steps) == [(1, {A0, A1}), (2, {A1})]
    assert [step.known_ok for step in steps if isinstance(step, Refresh)] == [True, False]


def test_offsets_wait_for_a_leader_and_for_a_broker_that_is_away() -> None:
    answers = [
        cluster({A0: -1}),
        cluster({A0: 1}),
        BrokerConnectionError("down"),
        cluster({A0: 1}),
        offsets({A0: 7}),
    ]
    found, steps = played(list_offsets({A0: -1}), answers)
    assert found[A0].offset == 7
    assert len([step for step in steps if isinstance(step, Pause)]) == 2


def test_offsets_of_a_topic_that_never_appears_are_given_up_soon() -> None:
    missing = cluster({A0: -1}, error=_UNKNOWN_TOPIC)
    with pytest.raises(BrokerError, match="find the leader of a-0: no such topic"):
        played(list_offsets({A0: -1}), [missing] * 5)


def test_offsets_that_are_refused_are_an_error() -> None:
    with pytest.raises(BrokerError, match="offsets of a-0"):
        played(list_offsets({A0: -1}), [cluster({A0: 1}), offsets({A0: -1}, error=_NOT_ALLOWED)])
    with pytest.raises(AuthenticationError):
        played(list_offsets({A0: -1}), [cluster({A0: 1}), AuthenticationError("who are you")])


def test_a_partition_that_the_response_leaves_out_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="offsets of a-1: the response does not contain them"):
        played(list_offsets({A0: -1, A1: -1}), [cluster({A0: 1, A1: 1}), offsets({A0: 10})])


def test_an_old_broker_answers_with_a_list_of_offsets() -> None:
    old = offsets({A0: -1})
    old.topics[0].partitions[0].old_style_offsets = [42]
    found, _ = played(list_offsets({A0: -1}), [cluster({A0: 1}), old])
    assert found[A0].offset == 42


def old_offsets(found: dict[TopicPartition, list[int]]) -> ListOffsetsResponse:
    """Return a response in version 0, which has lists."""
    response = offsets(dict.fromkeys(found, -1))
    for topic, starts in zip(response.topics, found.values(), strict=True):
        topic.partitions[0].old_style_offsets = starts
    return response


def test_a_broker_that_knows_the_times_of_segments_only_gives_an_offset_that_skips_nothing() -> None:
    refused = UnsupportedVersionError("no version from 1 on")
    answers = [
        cluster({A0: 1, B0: 1}),
        refused,
        old_offsets({A0: [40], B0: []}),  # B0: no segment is that old
        old_offsets({B0: [7]}),
    ]
    found, steps = played(list_offsets({A0: 1234, B0: 1234}, by_segment=True), answers)
    assert (found[A0].offset, found[B0].offset) == (40, 7)
    first, second, third = [step for step in steps if isinstance(step, Ask)]
    assert (first.min_version, second.max_version, third.max_version) == (1, 0, 0)
    assert isinstance(third.request, ListOffsetsRequest)
    assert third.request.topics[0].partitions[0].timestamp == -2


def test_a_broker_that_knows_the_times_of_segments_only_is_too_old_if_that_is_not_enough() -> None:
    refused = UnsupportedVersionError("no version from 1 on")
    with pytest.raises(UnsupportedVersionError):
        played(list_offsets({A0: 1234}), [cluster({A0: 1}), refused])


def test_a_broker_without_transactions_is_asked_without_an_isolation_level() -> None:
    answers = [cluster({A0: 1}), UnsupportedVersionError("isolation_level"), offsets({A0: 9})]
    found, steps = played(list_offsets({A0: -1}, isolation_level=1), answers)
    assert found[A0].offset == 9
    levels = [
        step.request.isolation_level
        for step in steps
        if isinstance(step, Ask) and isinstance(step.request, ListOffsetsRequest)
    ]
    assert levels == [1, 0]

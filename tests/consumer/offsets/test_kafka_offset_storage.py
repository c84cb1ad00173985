from typing import Any

import pytest

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_storages.kafka_offset_storage import (
    CommitRetries,
    commit_offsets,
    fetch_offsets,
)
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.owned_partitions import NOBODY, MemberIdentity
from pyklient.errors import BrokerConnectionError, BrokerError, ProtocolError, UnsupportedVersionError
from pyklient.net.dialogue import Ask, Pause
from pyklient.net.metadata import Metadata, Node
from pyklient.protocol.messages import (
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchResponse,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.scripted import play

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
LOADING, ILLEGAL_GENERATION, GROUP_AUTHORIZATION_FAILED, UNSTABLE = 14, 22, 30, 88


def coordinator() -> GroupCoordinatorClient:
    return GroupCoordinatorClient("g", 7)


def answer(codes: dict[TopicPartition, int]) -> OffsetCommitResponse:
    topic = OffsetCommitResponse.OffsetCommitResponseTopic
    return OffsetCommitResponse(
        topics=[
            topic(
                name=each.topic,
                partitions=[
                    topic.OffsetCommitResponsePartition(partition_index=each.partition, error_code=code)
                ],
            )
            for each, code in codes.items()
        ]
    )


def stored(*offsets: int, code: int = 0, topic_code: int = 0) -> OffsetFetchResponse:
    topic = OffsetFetchResponse.OffsetFetchResponseTopic
    partitions = [
        topic.OffsetFetchResponsePartition(
            partition_index=number, committed_offset=offset, metadata=None, error_code=code
        )
        for number, offset in enumerate(offsets)
    ]
    return OffsetFetchResponse(error_code=topic_code, topics=[topic(name="t", partitions=partitions)])


def test_offsets_that_are_kept_for_a_time_go_in_a_version_with_a_retention_time() -> None:
    offsets = {T0: OffsetAndMetadata(17)}
    _, steps = play(commit_offsets(coordinator(), NOBODY, offsets, 5_000), [answer({T0: 0})])
    request = steps[0]
    assert isinstance(request, OffsetCommitRequest)
    assert request.retention_time_ms == 5_000
    _, steps = play(commit_offsets(coordinator(), NOBODY, offsets), [answer({T0: 0})])
    request = steps[0]
    assert isinstance(request, OffsetCommitRequest)
    assert request.retention_time_ms == -1, "the broker decides"


def test_a_commit_goes_under_the_identity_that_it_is_given() -> None:
    identity = MemberIdentity(4, "then", "i")
    offsets = {T0: OffsetAndMetadata(17, "note"), T1: OffsetAndMetadata(3), U0: OffsetAndMetadata(1)}
    failed, asked = play(commit_offsets(coordinator(), identity, offsets), [answer({T0: 0, T1: 0, U0: 0})])
    request = asked[0]
    assert isinstance(request, OffsetCommitRequest)
    assert failed == {}
    assert (request.generation_id_or_member_epoch, request.member_id) == (4, "then")
    assert request.group_instance_id == "i"
    assert [(topic.name, len(topic.partitions)) for topic in request.topics] == [("t", 2), ("u", 1)]
    first = request.topics[0].partitions[0]
    assert (first.partition_index, first.committed_offset, first.committed_metadata) == (0, 17, "note")


def test_only_what_a_busy_coordinator_put_off_is_sent_again() -> None:
    offsets = {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}
    failed, asked = play(
        commit_offsets(coordinator(), NOBODY, offsets), [answer({T0: 0, T1: LOADING}), answer({T1: 0})]
    )
    again: Any = asked[1]
    assert failed == {}
    assert [each.partition_index for each in again.topics[0].partitions] == [1]


def test_what_is_refused_for_good_comes_back_with_its_error() -> None:
    offsets = {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2)}
    failed, _ = play(
        commit_offsets(coordinator(), NOBODY, offsets), [answer({T0: 0, T1: ILLEGAL_GENERATION})]
    )
    assert list(failed) == [T1]
    assert failed[T1].outdated
    assert "ILLEGAL_GENERATION" in str(failed[T1].error)


def test_a_partition_that_the_response_leaves_out_does_not_count_as_committed() -> None:
    offsets = {T0: OffsetAndMetadata(1), T1: OffsetAndMetadata(2), U0: OffsetAndMetadata(3)}
    failed, asked = play(
        commit_offsets(coordinator(), NOBODY, offsets), [answer({T0: 0, T1: LOADING}), answer({T1: 0})]
    )
    assert [(type(why.error), why.outdated) for why in failed.values()] == [(ProtocolError, False)]
    assert str(failed[U0].error) == (
        "cannot tell whether the offset of u-0 for group g was committed: the response does not contain this "
        "partition"
    )
    assert len(asked) == 2, "only what the coordinator put off was sent again"
    failed, _ = play(commit_offsets(coordinator(), NOBODY, offsets), [OffsetCommitResponse()])
    assert failed.keys() == offsets.keys()


def test_a_partition_that_the_response_leaves_out_is_not_one_without_a_committed_offset() -> None:
    with pytest.raises(ProtocolError, match="offsets of group g: the response does not contain t-1, u-0"):
        play(fetch_offsets(coordinator(), [T0, T1, U0]), [stored(42)])


def test_committed_offsets_come_by_partition_and_none_where_there_is_none() -> None:
    found, _ = play(fetch_offsets(coordinator(), [T0, T1]), [stored(42, -1)])
    assert found == {T0: OffsetAndMetadata(42), T1: None}


def test_offset_0_is_a_committed_offset() -> None:
    found, _ = play(fetch_offsets(coordinator(), [T0]), [stored(0)])
    assert found == {T0: OffsetAndMetadata(0)}


def test_asking_for_nothing_asks_nobody() -> None:
    assert play(fetch_offsets(coordinator(), []), []) == ({}, [])


@pytest.mark.parametrize("busy", [stored(-1, code=UNSTABLE), stored(-1, topic_code=LOADING)])
def test_offsets_that_are_about_to_change_are_asked_for_again(busy: OffsetFetchResponse) -> None:
    found, asked = play(fetch_offsets(coordinator(), [T0]), [busy, stored(5)])
    assert found == {T0: OffsetAndMetadata(5)}
    assert [each.require_stable for each in asked] == [True, True]


def test_a_group_that_we_may_not_read_is_an_error() -> None:
    with pytest.raises(BrokerError, match="group g"):
        play(
            fetch_offsets(coordinator(), [T0]),
            [stored(-1, topic_code=GROUP_AUTHORIZATION_FAILED)],
        )


def test_an_old_broker_that_cannot_wait_for_transactions_is_asked_without() -> None:
    found, asked = play(fetch_offsets(coordinator(), [T0]), [UnsupportedVersionError("6 only"), stored(5)])
    assert found == {T0: OffsetAndMetadata(5)}
    assert asked[1].require_stable is False


def test_offsets_are_asked_for_and_committed_again_wherever_the_coordinator_has_gone() -> None:
    gone = BrokerConnectionError("gone")
    moved = [gone, FindCoordinatorResponse(node_id=8), Metadata(nodes={8: Node(8, "localhost", 1)})]
    found, _ = play(fetch_offsets(coordinator(), [T0]), [*moved, stored(5)])
    assert found == {T0: OffsetAndMetadata(5)}
    left = {T0: OffsetAndMetadata(1)}
    assert play(commit_offsets(coordinator(), NOBODY, left), [*moved, answer({T0: 0})])[0] == {}


@pytest.mark.parametrize("tries", [1, 3])
def test_a_commit_is_tried_as_often_as_the_options_say_with_their_pause_and_time_out(tries: int) -> None:
    left = {T0: OffsetAndMetadata(1)}
    dialogue = commit_offsets(coordinator(), NOBODY, left, None, CommitRetries(tries, 0.5, 2.0))
    steps = [next(dialogue)]

    def go_on() -> None:
        for _ in range(10):
            steps.append(dialogue.send(answer({T0: LOADING}) if isinstance(steps[-1], Ask) else None))

    with pytest.raises(BrokerError, match="cannot commit offsets of group g"):
        go_on()
    assert [each.timeout for each in steps if isinstance(each, Ask)] == [2.0] * tries
    assert [each.seconds for each in steps if isinstance(each, Pause)] == [0.5] * (tries - 1)


def test_the_options_of_scalas_consumer_limit_the_retries_of_commits() -> None:
    config = ConsumerConfig.from_options(
        {
            "offsets_commit_max_retries": 5,
            "offsets_channel_backoff_ms": 1_000,
            "offsets_channel_socket_timeout_ms": 10_000,
        }
    )
    assert CommitRetries.of(config) == (6, 1.0, 10.0)
    assert CommitRetries.of(ConsumerConfig()) == (None, None, None)

"""Fetch sessions without a broker: the partitions that requests name and forget, and sessions that start
again."""

from typing import NamedTuple

from pyklient.consumer.fetch.fetch_session import FetchSession, Wanted, name_all, next_epoch
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import FetchRequest, FetchResponse
from pyklient.topic_partition import TopicPartition

A, B, C = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("c", 0)
ID, OTHER_ID = b"i" * 16, b"o" * 16


class Sent(NamedTuple):
    """The parts of a request that the tests compare."""

    session: tuple[int, int]
    named: list[tuple[str, int, int]]
    forgotten: list[tuple[str, int]]


def sent(request: FetchRequest) -> Sent:
    return Sent(
        (request.session_id, request.session_epoch),
        [
            (topic.topic, each.partition, each.fetch_offset)
            for topic in request.topics
            for each in topic.partitions
        ],
        [
            (topic.topic, partition)
            for topic in request.forgotten_topics_data
            for partition in topic.partitions
        ],
    )


class Script:
    """A session, and the responses of its leader, which a test chooses."""

    def __init__(self) -> None:
        self.session = FetchSession()

    def ask(self, *offsets: tuple[TopicPartition, int], topic_id: bytes = bytes(16)) -> Sent:
        request = FetchRequest()
        wanted = {where: Wanted(offset, 1000, 0, topic_id) for where, offset in offsets}
        self.session.fill(request, wanted, by_id=any(topic_id))
        self.request = request
        return sent(request)

    def answered(self, session_id: int) -> None:
        self.session.accept(FetchResponse(session_id=session_id))


def test_the_first_request_opens_a_session_and_the_next_names_what_has_changed() -> None:
    script = Script()
    assert script.ask((A, 0), (B, 0)) == Sent((0, 0), [("a", 0, 0), ("a", 1, 0)], [])
    script.answered(7)
    assert script.ask((A, 5), (B, 0)) == Sent((7, 1), [("a", 0, 5)], [])
    script.answered(7)
    assert script.ask((A, 5), (B, 0)) == Sent((7, 2), [], [])
    script.answered(7)
    assert script.ask((B, 0), (C, 3)) == Sent((7, 3), [("c", 0, 3)], [("a", 0)])
    script.answered(7)
    assert script.ask((A, 5), (B, 0), (C, 3)) == Sent((7, 4), [("a", 0, 5)], [])


def test_limits_and_leader_epochs_count_as_changes() -> None:
    session, request = FetchSession(), FetchRequest()
    session.fill(request, {A: Wanted(0, 1000, 0), B: Wanted(0, 1000, 0)})
    session.accept(FetchResponse(session_id=7))
    session.fill(request, {A: Wanted(0, 999, 0), B: Wanted(0, 1000, 1)})
    (topic,) = request.topics
    assert [(each.partition_max_bytes, each.current_leader_epoch) for each in topic.partitions] == [
        (999, 0),
        (1000, 1),
    ]


def test_a_broker_that_keeps_no_session_is_asked_for_everything_each_time() -> None:
    script = Script()
    for offset in range(3):
        assert script.ask((A, offset), (B, 0)) == Sent((0, 0), [("a", 0, offset), ("a", 1, 0)], [])
        script.answered(0)


def test_a_session_that_the_broker_closes_with_its_answer_is_opened_again() -> None:
    script = Script()
    script.ask((A, 0))
    script.answered(7)
    script.ask((A, 1))
    script.answered(0)
    assert script.ask((A, 2)) == Sent((0, 0), [("a", 0, 2)], [])


def test_a_session_that_the_broker_has_dropped_is_opened_again() -> None:
    script = Script()
    script.ask((A, 0), (B, 0))
    script.answered(7)
    script.ask((A, 1), (B, 0))
    assert script.session.accept_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    assert script.ask((A, 1), (B, 0)) == Sent((0, 0), [("a", 0, 1), ("a", 1, 0)], [])


def test_a_session_out_of_step_is_replaced_by_a_new_one() -> None:
    for code in (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR):
        script = Script()
        script.ask((A, 0))
        script.answered(7)
        script.ask((A, 0))
        assert script.session.accept_error(code)
        assert script.ask((A, 0)) == Sent((7, 0), [("a", 0, 0)], []), "the broker drops 7 for it"
        script.answered(8)
        assert script.ask((A, 0)) == Sent((8, 1), [], [])


def test_other_errors_and_session_errors_of_a_first_request_are_not_cured_by_asking_again() -> None:
    script = Script()
    script.ask((A, 0))
    assert not script.session.accept_error(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    script.ask((A, 0))
    script.answered(7)
    script.ask((A, 0))
    assert not script.session.accept_error(ErrorCode.KAFKA_STORAGE_ERROR)
    assert script.ask((A, 0)).session == (7, 0)


def test_without_an_answer_the_next_request_names_everything() -> None:
    script = Script()
    script.ask((A, 0), (B, 0))
    script.answered(7)
    script.ask((A, 1), (B, 0))
    script.session.restart()
    assert script.ask((A, 1), (B, 0)) == Sent((7, 0), [("a", 0, 1), ("a", 1, 0)], [])


def test_epochs_start_again_at_one_behind_the_last() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 2, 2**31 - 1)] == [1, 2, 2**31 - 1, 1]


def test_naming_topics_by_id_opens_a_session_of_its_own_kind() -> None:
    script = Script()
    script.ask((A, 0))
    script.answered(7)
    assert script.ask((A, 0), topic_id=ID) == Sent((7, 0), [("a", 0, 0)], [])
    script.answered(8)
    assert script.ask((A, 0), topic_id=ID).named == []
    script.answered(8)
    assert script.ask((A, 0)) == Sent((8, 0), [("a", 0, 0)], [])


def test_a_topic_that_was_created_again_is_forgotten_by_its_old_id() -> None:
    script = Script()
    script.ask((A, 5), topic_id=ID)
    script.answered(7)
    assert script.ask((A, 0), topic_id=OTHER_ID) == Sent((7, 1), [("a", 0, 0)], [("a", 0)])
    assert [topic.topic_id for topic in script.request.topics] == [OTHER_ID]
    assert [topic.topic_id for topic in script.request.forgotten_topics_data] == [ID]


def test_a_request_without_a_session_says_so() -> None:
    request = FetchRequest()
    name_all(request, {A: Wanted(3, 1000)})
    assert sent(request) == Sent((0, -1), [("a", 0, 3)], [])

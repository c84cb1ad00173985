"""Incremental fetch sessions, as a client sees them (KIP-227)."""

from collections.abc import Iterator

import pytest

from pyklient.broker import Broker
from pyklient.broker.api_errors import ApiError
from pyklient.broker.fetch_sessions import FetchSessionCache
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch
from pyklient.protocol.messages import (
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
)
from pyklient.protocol.records import NewRecord
from tests.broker.wire_client import WireClient

BATCH = encode_batch([NewRecord(0, None, b"x" * 100)])


def request(
    session: tuple[int, int], *named: tuple[int, int], forgotten: tuple[int, ...] = (), **options: int
) -> FetchRequest:
    """Return a request for partitions of ``clicks``, each given as (partition, offset)."""
    wanted = [
        FetchRequest.FetchTopic.FetchPartition(
            partition=index, fetch_offset=offset, partition_max_bytes=1 << 20
        )
        for index, offset in named
    ]
    return FetchRequest(
        session_id=session[0],
        session_epoch=session[1],
        max_wait_ms=options.get("wait_ms", 0),
        min_bytes=1,
        max_bytes=options.get("max_bytes", 1 << 25),
        topics=[FetchRequest.FetchTopic(topic="clicks", partitions=wanted)] if wanted else [],
        forgotten_topics_data=[FetchRequest.ForgottenTopic(topic="clicks", partitions=list(forgotten))]
        if forgotten
        else [],
    )


class Session:
    """A client that fetches with a session."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self.state = (0, 0)

    def ask(self, *named: tuple[int, int], forgotten: tuple[int, ...] = (), **options: int) -> dict[int, int]:
        """Send a request. Return the size of the records in bytes for each partition that the response
        names."""
        response = self._client.ask(
            request(self.state, *named, forgotten=forgotten, **options), FetchResponse, 12
        )
        assert response.error_code == 0
        self.state = (response.session_id, self.state[1] + 1)
        return {
            each.partition_index: len(each.records or b"")
            for topic in response.responses
            for each in topic.partitions
        }

    def refused(self) -> int:
        return self._client.ask(request(self.state), FetchResponse, 12).error_code


@pytest.fixture
def session(broker: Broker, client: WireClient) -> Session:
    broker.create_topic("clicks", 3)
    return Session(client)


@pytest.fixture
def small_broker() -> Iterator[Broker]:
    with Broker(max_incremental_fetch_session_cache_slots=2) as running:
        running.create_topic("clicks", 3)
        yield running


def test_an_answer_names_the_partitions_with_news(session: Session, client: WireClient) -> None:
    assert session.ask((0, 0), (1, 0), (2, 0)) == {0: 0, 1: 0, 2: 0}
    assert session.state[0] > 0
    assert session.ask() == {}
    client.produce("clicks", 1, BATCH)
    assert session.ask() == {1: len(BATCH)}
    assert session.ask() == {1: len(BATCH)}, "its offset has not been moved"
    assert session.ask((1, 1)) == {}, "the client knows the end of the log already"
    assert session.ask() == {}


def test_a_waiting_session_is_answered_when_records_come(
    broker: Broker, session: Session, client: WireClient
) -> None:
    session.ask((0, 0), (1, 0), (2, 0))
    client.send(request(session.state, wait_ms=20_000), 12)
    with WireClient(broker) as producer:
        producer.produce("clicks", 2, BATCH)
    (topic,) = client.receive(FetchResponse).responses
    assert [each.partition_index for each in topic.partitions] == [2]


def test_partitions_that_are_forgotten_come_no_more(session: Session, client: WireClient) -> None:
    session.ask((0, 0), (1, 0))
    client.produce("clicks", 0, BATCH)
    client.produce("clicks", 1, BATCH)
    assert session.ask(forgotten=(0,)) == {1: len(BATCH)}
    assert session.ask((0, 0)) == {1: len(BATCH), 0: len(BATCH)}


def test_partitions_take_turns_where_the_answer_is_full(session: Session, client: WireClient) -> None:
    for partition in range(3):
        client.produce("clicks", partition, BATCH)
    filled = [
        next(partition for partition, size in answer.items() if size)
        for answer in (
            session.ask((0, 0), (1, 0), (2, 0), max_bytes=len(BATCH)),
            *(session.ask(max_bytes=len(BATCH)) for _ in range(5)),
        )
    ]
    assert filled == [0, 1, 2, 0, 1, 2]


def test_an_error_is_told_every_time_it_is_met(session: Session, client: WireClient) -> None:
    def codes(response: FetchResponse) -> list[int]:
        return [each.error_code for topic in response.responses for each in topic.partitions]

    session.ask((0, 0), (1, 0))
    for _ in range(2):
        response = client.ask(request(session.state, (1, 99), wait_ms=20_000), FetchResponse, 12)
        session.state = (session.state[0], session.state[1] + 1)
        assert codes(response) == [ErrorCode.OFFSET_OUT_OF_RANGE]
    assert session.ask((1, 0)) == {1: 0}, "all is well again, which is news"


def test_a_request_out_of_step_is_refused(session: Session) -> None:
    session.ask((0, 0))
    session.state = (session.state[0], 5)
    assert session.refused() == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    session.state = (session.state[0], 1)
    assert session.ask() == {}, "the session goes on as if nothing had been asked"
    session.state = (session.state[0] ^ 1, 1)
    assert session.refused() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_request_that_comes_twice_is_refused_the_second_time(session: Session) -> None:
    session.ask((0, 0))
    session.ask((1, 0))
    session.state = (session.state[0], session.state[1] - 1)
    assert session.refused() == ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_a_full_request_replaces_its_session_and_a_last_one_ends_it(
    session: Session, client: WireClient
) -> None:
    session.ask((0, 0))
    old = session.state
    session.state = (old[0], 0)
    assert session.ask((1, 0)) == {1: 0}
    new, session.state = session.state, old
    assert session.refused() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    response = client.ask(request((new[0], -1), (0, 0)), FetchResponse, 12)
    assert (response.error_code, response.session_id) == (0, 0)
    session.state = new
    assert session.refused() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_without_partitions_is_closed(session: Session) -> None:
    session.ask((0, 0), (1, 0))
    assert session.ask(forgotten=(0, 1)) == {}
    assert session.state[0] == 0


def test_names_and_ids_do_not_mix_in_a_session(session: Session, client: WireClient) -> None:
    session.ask((0, 0))
    response = client.ask(request(session.state), FetchResponse, 13)
    assert response.error_code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_session_by_id_learns_that_its_topic_was_deleted(broker: Broker, client: WireClient) -> None:
    broker.create_topic("clicks")
    metadata = client.ask(
        MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="clicks")]), MetadataResponse
    )
    asked = request((0, 0), (0, 0))
    asked.topics[0].topic_id = topic_id = metadata.topics[0].topic_id
    opened = client.ask(asked, FetchResponse)
    assert opened.responses[0].topic_id == topic_id
    client.ask(DeleteTopicsRequest(topic_names=["clicks"]), DeleteTopicsResponse, 3)
    broker.create_topic("clicks")
    (topic,) = client.ask(request((opened.session_id, 1)), FetchResponse).responses
    assert topic.topic_id == topic_id
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_the_session_that_was_not_used_for_longest_makes_room(small_broker: Broker) -> None:
    with WireClient(small_broker) as client:
        first, second, third = sessions = [Session(client) for _ in range(3)]
        first.ask((0, 0))
        second.ask((1, 0))
        first.ask()
        third.ask((2, 0))
        assert all(session.state[0] for session in sessions)
        assert first.ask() == {}
        assert third.ask() == {}
        assert second.refused() == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_without_slots_every_request_names_all_its_partitions() -> None:
    with Broker(max_incremental_fetch_session_cache_slots=0) as broker, WireClient(broker) as client:
        broker.create_topic("clicks")
        session = Session(client)
        assert session.ask((0, 0)) == {0: 0}
        assert session.state[0] == 0


def test_sessions_hold_a_bounded_number_of_partitions_in_all() -> None:
    sessions = FetchSessionCache(slots=10, max_partitions=3)
    first = sessions.context(request((0, 0), (0, 0)), 12).session_id
    second = sessions.context(request((0, 0), (0, 0), (1, 0)), 12).session_id
    assert len(sessions) == 2
    sessions.context(request((second, 1), (2, 0)), 12)
    with pytest.raises(ApiError) as gone:
        sessions.context(request((first, 1)), 12)
    assert gone.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "there was no room for both"
    with pytest.raises(ApiError) as too_large:
        sessions.context(request((second, 2), (3, 0)), 12)
    assert too_large.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert sessions.context(request((0, 0), *[(index, 0) for index in range(4)]), 12).session_id == 0
    assert sessions.context(request((0, 0), (0, 0)), 12).session_id > 0

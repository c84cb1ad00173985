"""What goes over the wire while a consumer reads: a session names what has changed, and nothing else."""

import itertools
from typing import NamedTuple

import pytest

from pyklient import Admin, Producer, read
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import FetchRequest, FetchResponse
from tests.servers.fixtures import NewName, NewTopic, StartReference
from tests.servers.process import wait_until
from tests.servers.recording_proxy import Exchange, RecordingProxy
from tests.servers.topics import create_topic
from tests.system.reading import connector

pytestmark = pytest.mark.brokers(min="2.4")

PARTITIONS = 20


class Fetch(NamedTuple):
    """One fetch: its session and epoch, which partitions it named and forgot, which ones answered."""

    session: tuple[int, int]
    named: set[int]
    forgotten: set[int]
    answered: set[int]
    size: int


def seen(exchange: Exchange) -> Fetch:
    request, response = exchange.request, exchange.response
    assert isinstance(request, FetchRequest)
    assert isinstance(response, FetchResponse)
    assert response.error_code == 0
    return Fetch(
        (request.session_id, request.session_epoch),
        {each.partition for topic in request.topics for each in topic.partitions},
        {each for topic in request.forgotten_topics_data for each in topic.partitions},
        {each.partition_index for topic in response.responses for each in topic.partitions},
        exchange.size,
    )


def test_a_quiet_consumer_names_no_partitions_and_gets_none(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    with Producer(bootstrap) as producer:
        for partition in range(PARTITIONS):
            producer.send(topic, b"first", partition=partition)
    with (
        RecordingProxy(bootstrap, FetchRequest) as proxy,
        connector(proxy.bootstrap_servers, new_name(), fetch_max_wait_ms=50) as reader,
    ):
        stream = iter(reader.stream(topic))
        assert {message.partition for message in itertools.islice(stream, PARTITIONS)} == set(
            range(PARTITIONS)
        )
        read_so_far = len(proxy.exchanges)
        wait_until(lambda: len(proxy.exchanges) >= read_so_far + 8, 60, "some fetches without news")
        quiet = len(proxy.exchanges) - 3
        with Producer(bootstrap) as producer:
            producer.send(topic, b"second", partition=7).result(timeout=30)
        assert next(stream).partition == 7
        wait_until(lambda: seen(proxy.exchanges[-1]).answered == set(), 60, "silence again")
    fetches = [seen(exchange) for exchange in proxy.exchanges]
    opening, first = fetches[0], fetches[1]
    assert opening.session == (0, 0)
    # A fetcher that begins before it has been given all partitions names the others in its next request.
    assert set().union(*(fetch.named for fetch in fetches[:quiet])) == set(range(PARTITIONS))
    session_id = first.session[0]
    assert session_id > 0
    assert [fetch.session for fetch in fetches[1:]] == [
        (session_id, epoch) for epoch in range(1, len(fetches))
    ]
    assert (fetches[quiet].named, fetches[quiet].forgotten, fetches[quiet].answered) == (set(), set(), set())
    assert fetches[quiet].size < max(fetch.size for fetch in fetches) / 3
    later = fetches[quiet:]
    assert next(fetch.answered for fetch in later if 7 in fetch.answered) == {7}
    assert set().union(*(fetch.named for fetch in later)) == {7}, "its offset has moved"


def test_consumers_whose_sessions_are_dropped_all_the_time_miss_nothing(
    start_reference: StartReference, new_name: NewName
) -> None:
    broker = start_reference(max_incremental_fetch_session_cache_slots=1)
    topic = create_topic(broker.bootstrap_servers, new_name(), partitions=2)
    with (
        RecordingProxy(broker.bootstrap_servers, FetchRequest) as proxy,
        connector(proxy.bootstrap_servers, new_name(), fetch_max_wait_ms=20) as one,
        connector(proxy.bootstrap_servers, new_name(), fetch_max_wait_ms=20) as other,
        Producer(broker.bootstrap_servers) as producer,
    ):
        streams = [iter(one.stream(topic)), iter(other.stream(topic))]
        for number in range(50):
            producer.send(topic, b"%d" % number, partition=number % 2).result(timeout=30)
            assert [next(stream).value for stream in streams] == [b"%d" % number] * 2
        answers = [exchange.response for exchange in proxy.exchanges]
    codes = {answer.error_code for answer in answers if isinstance(answer, FetchResponse)}
    assert codes == {ErrorCode.NONE, ErrorCode.FETCH_SESSION_ID_NOT_FOUND}


def test_a_bounded_read_leaves_no_session_behind(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(topic, b"%d" % number, partition=number % 2)
    with RecordingProxy(bootstrap, FetchRequest) as proxy:
        assert len(list(read(proxy.bootstrap_servers, topic, start=0))) == 10
    assert {seen(exchange).session for exchange in proxy.exchanges} == {(0, -1)}


def test_topics_are_named_by_id_where_the_broker_knows_ids(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    with Producer(bootstrap) as producer:
        producer.send(topic, b"one")
    with (
        RecordingProxy(bootstrap, FetchRequest) as proxy,
        connector(proxy.bootstrap_servers, new_name()) as reader,
    ):
        assert next(iter(reader.stream(topic))).value == b"one"
    exchange = proxy.exchanges[0]
    assert isinstance(exchange.request, FetchRequest)
    (named,) = exchange.request.topics
    assert (named.topic, any(named.topic_id)) == (("", True) if exchange.version >= 13 else (topic, False))


@pytest.mark.brokers(min="4.3")
def test_a_topic_that_is_created_again_is_not_taken_for_the_old_one(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic()
    with (
        Admin(bootstrap) as admin,
        Producer(bootstrap) as producer,
        connector(bootstrap, new_name(), metadata_max_age_ms=500) as reader,
    ):
        stream = iter(reader.stream(topic))
        for number in range(3):
            producer.send(topic, b"old %d" % number).result(timeout=30)
        assert [next(stream).value for _ in range(3)] == [b"old 0", b"old 1", b"old 2"]
        admin.delete_topic(topic)
        wait_until(lambda: topic not in admin.topics(), 60, "the topic gone")
        admin.create_topic(topic, partitions=1)
        with Producer(bootstrap) as another:
            for number in range(5):
                another.send(topic, b"new %d" % number).result(timeout=30)
        found = [next(stream) for _ in range(5)]
    assert [(message.offset, message.value) for message in found] == [
        (number, b"new %d" % number) for number in range(5)
    ]

"""A consumer that is bound to one broker."""

import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyklient import (
    BrokerConsumer,
    BrokerError,
    ClosedError,
    CommitError,
    ConfigurationError,
    Fetched,
    FetchRequestBuilder,
    MessageTooLargeError,
    OffsetAndMetadata,
    OffsetOutOfRangeError,
    PartitionFetch,
    ProtocolError,
    SimpleConsumer,
    SimpleFetchRequest,
    TopicPartition,
    UnsupportedVersionError,
)
from pyklient.broker import Broker
from pyklient.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
)
from tests.consumer.feed import Feed
from tests.consumer.stream.bench import values
from tests.net.scripted import ScriptedBroker

EARLIEST, LATEST = BrokerConsumer.EARLIEST, BrokerConsumer.LATEST


def connected(servers: str, **options: Any) -> BrokerConsumer:
    host, _, port = servers.rpartition(":")
    return SimpleConsumer.connect(host, int(port), **options)


@pytest.fixture
def simple(feed: Feed) -> Iterator[BrokerConsumer]:
    with connected(feed.bootstrap_servers) as consumer:
        yield consumer


def test_a_fetch_of_one_partition_returns_its_messages(feed: Feed, simple: BrokerConsumer) -> None:
    topic = feed.topic(1, "a", "b", "c")
    fetched = simple.fetch(PartitionFetch(topic, 0, 1, 100_000))
    assert values(list(fetched)) == ["b", "c"]
    assert (fetched.next_offset, fetched.high_watermark, fetched.error_code) == (3, 3, 0)


def test_a_request_of_several_partitions_has_the_error_of_each_in_its_response(
    feed: Feed, simple: BrokerConsumer
) -> None:
    topic = feed.topic(2, "a", "b")
    builder = FetchRequestBuilder().client_id("test").max_wait(1).min_bytes(1)
    request = builder.add_fetch(topic, 1, 0).add_fetch(topic, 0, 1).add_fetch(topic, 9, 0).build()
    response = simple.fetch(request)
    assert response.has_error
    assert values(list(response.message_set(topic, 0))) == ["b"]
    assert list(response.message_set(topic, 1)) == []
    codes = [response.error_code(topic, number) for number in (0, 1, 9)]
    marks = [response.high_watermark(topic, number) for number in (0, 1, 9)]
    assert (codes, marks) == ([0, 0, 3], [2, 0, -1])
    missing = response.message_set(topic, 9)
    with pytest.raises(BrokerError, match=f"cannot fetch {topic}-9 at offset 0: no such topic or partition"):
        list(missing)
    with pytest.raises(ConfigurationError, match=f"no partition {topic}-5; the request named {topic}-1, "):
        response.error_code(topic, 5)
    assert not simple.fetch(builder.add_fetch(topic, 0, 0).build()).has_error


def test_multifetch_answers_in_the_order_of_the_list_in_which_a_partition_may_appear_twice(
    feed: Feed, simple: BrokerConsumer
) -> None:
    topic, other = feed.topic(1, "a", "b", "c"), feed.topic(1, "x")
    offsets = [(topic, 2), (other, 0), (topic, 0), (topic, 9), (other, 1), (topic, 3)]
    found = simple.multifetch([PartitionFetch(name, 0, offset) for name, offset in offsets])
    shown = [each.error_code or values(list(each)) for each in found]
    assert shown == [["c"], ["x"], ["a", "b", "c"], 1, [], []]
    with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0 at offset 9"):
        list(found[3])
    assert simple.multifetch([]) == []


def test_rows_43_45_and_46_at_one_broker() -> None:
    """The offsets before a time, of an empty log too, and fetches at the end of the log and behind it."""
    with Broker(segment_bytes=100, auto_create_topics=False) as broker, Feed(broker) as feed:
        topic = feed.topic(1)
        with connected(feed.bootstrap_servers) as simple:
            for which in (EARLIEST, LATEST):
                assert simple.get_offsets_before(topic, 0, which, 10) == [0], "row 45"
                assert simple.earliest_or_latest_offset(topic, 0, which) == 0, "row 45"
            for number in range(6):
                feed.send(topic, [str(number)])
            found = simple.get_offsets_before(topic, 0, LATEST, 10)
            assert (found[0], found[-1], found) == (6, 0, sorted(set(found), reverse=True)), "row 43"
            assert len(found) > 2, "row 43: several segments"
            assert simple.get_offsets_before(topic, 0, EARLIEST, 10) == [0], "row 43"
            assert simple.earliest_or_latest_offset(topic, 0, LATEST) == 6
            assert simple.get_offsets_before(topic, 0, 0, 10) == [], "nothing is that old"
            at_the_end = simple.fetch(PartitionFetch(topic, 0, 6))
            assert (list(at_the_end), at_the_end.error_code) == ([], 0), "row 46"
            assert simple.fetch(PartitionFetch(topic, 0, 7)).error_code == 1, "row 46"


def test_offsets_of_a_partition_that_the_broker_does_not_have_are_an_error(
    feed: Feed, simple: BrokerConsumer
) -> None:
    for call in (
        lambda: simple.get_offsets_before("none", 0),
        lambda: simple.earliest_or_latest_offset("none", 0, LATEST),
    ):
        with pytest.raises(BrokerError, match="cannot look up offsets of none-0: no such topic"):
            call()


def test_a_time_in_between_is_no_first_or_last_offset(feed: Feed, simple: BrokerConsumer) -> None:
    with pytest.raises(ConfigurationError, match=r"timestamp_ms=5 is neither EARLIEST \(-2\) nor LATEST"):
        simple.earliest_or_latest_offset(feed.topic(1), 0, 5)


def test_offsets_are_committed_and_fetched_at_the_group_coordinator(
    feed: Feed, simple: BrokerConsumer
) -> None:
    topic, group = feed.topic(3), feed.name()
    host, _, port = feed.bootstrap_servers.rpartition(":")
    node = simple.find_coordinator(group)
    assert (node.host, node.port) == (host, int(port))
    first, second, third = (TopicPartition(topic, number) for number in range(3))
    simple.commit_offsets(group, {first: 5, second: OffsetAndMetadata(7, "seven")})
    assert feed.committed(group, topic, 3) == [5, 7, None]
    found = simple.fetch_offsets(group, [third, second, first])
    assert list(found) == [third, second, first]
    assert (found[third], found[second]) == (None, OffsetAndMetadata(7, "seven"))
    with pytest.raises(
        CommitError, match=f"cannot commit the offset of nothing-0 for group {group}"
    ) as caught:
        simple.commit_offsets(group, {first: 6, TopicPartition("nothing", 0): 1})
    (error,) = caught.value.partitions.values()
    assert isinstance(error, BrokerError)
    assert error.code == 3
    assert feed.committed(group, topic) == [6], "the other partition is committed"


def test_a_broker_without_zookeeper_cannot_keep_offsets_there(feed: Feed, simple: BrokerConsumer) -> None:
    where, group = TopicPartition(feed.topic(1), 0), feed.name()
    with pytest.raises(UnsupportedVersionError, match="use offsets_storage='kafka'"):
        simple.commit_offsets(group, {where: 1}, "zookeeper")
    with pytest.raises(UnsupportedVersionError, match="use offsets_storage='kafka'"):
        simple.fetch_offsets(group, [where], offsets_storage="zookeeper")


def test_the_metadata_of_topics_names_their_leaders_and_errors(feed: Feed, simple: BrokerConsumer) -> None:
    topic = feed.topic(2)
    metadata = simple.topic_metadata([topic, "none"])
    leader = metadata.leader(TopicPartition(topic, 1))
    assert leader is not None
    assert f"{leader.host}:{leader.port}" == feed.bootstrap_servers
    assert {name: each.error for name, each in metadata.topics.items()} == {topic: 0, "none": 3}
    assert topic in simple.topic_metadata().topics


def test_a_broker_that_does_not_lead_a_partition_is_not_left_for_another() -> None:
    """The error is that of the partition, and is raised when its messages are iterated."""

    def not_the_leader(_request: object) -> FetchResponse:
        data = FetchResponse.FetchableTopicResponse.PartitionData(partition_index=0, error_code=6)
        return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[data])])

    def no_offsets(_request: object) -> ListOffsetsResponse:
        partition = ListOffsetsResponse.ListOffsetsPartitionResponse(error_code=6)
        topic = ListOffsetsResponse.ListOffsetsTopicResponse(name="t", partitions=[partition])
        return ListOffsetsResponse(topics=[topic])

    with ScriptedBroker() as broker:
        broker.on(FetchRequest, not_the_leader)
        broker.on(ListOffsetsRequest, no_offsets)
        with SimpleConsumer.connect(broker.host, broker.port) as simple:
            fetched = simple.fetch(PartitionFetch("t", 0, 0))
            assert fetched.error_code == 6
            with pytest.raises(BrokerError, match="NOT_LEADER_OR_FOLLOWER, 6"):
                list(fetched)
            with pytest.raises(BrokerError, match="NOT_LEADER_OR_FOLLOWER, 6"):
                simple.get_offsets_before("t", 0)
        assert [type(each) for each in broker.requests] == [FetchRequest, ListOffsetsRequest]


def test_a_partition_that_the_response_leaves_out_has_an_error_of_its_own() -> None:
    with ScriptedBroker() as broker:
        broker.on(FetchRequest, lambda request: FetchResponse())
        with SimpleConsumer.connect(broker.host, broker.port) as simple:
            fetched = simple.fetch(PartitionFetch("t", 0, 0))
            with pytest.raises(
                ProtocolError, match="cannot fetch t-0: the response does not contain this partition"
            ):
                list(fetched)
            assert fetched == Fetched(error=fetched.error)


def test_a_partition_that_the_broker_left_out_is_neither_committed_nor_without_offset_nor_found() -> None:
    """The response to each request is about partition 1 of the topic instead of partition 0."""
    commit = OffsetCommitResponse.OffsetCommitResponseTopic(
        name="t", partitions=[OffsetCommitResponse.OffsetCommitResponsePartition(partition_index=1)]
    )
    fetch = OffsetFetchResponse.OffsetFetchResponseTopic(
        name="t",
        partitions=[OffsetFetchResponse.OffsetFetchResponsePartition(partition_index=1, committed_offset=5)],
    )
    look_up = ListOffsetsResponse.ListOffsetsTopicResponse(
        name="t",
        partitions=[ListOffsetsResponse.ListOffsetsPartitionResponse(partition_index=1)],
    )
    where = TopicPartition("t", 0)
    with ScriptedBroker() as broker:
        broker.on(OffsetCommitRequest, lambda request: OffsetCommitResponse(topics=[commit]))
        broker.on(OffsetFetchRequest, lambda request: OffsetFetchResponse(topics=[fetch]))
        broker.on(ListOffsetsRequest, lambda request: ListOffsetsResponse(topics=[look_up]))
        with SimpleConsumer.connect(broker.host, broker.port) as simple:
            with pytest.raises(CommitError, match="whether the offset of t-0 for group g was") as caught:
                simple.commit_offsets("g", {where: 3})
            assert [type(error) for error in caught.value.partitions.values()] == [ProtocolError]
            assert list(caught.value.partitions) == [where]
            with pytest.raises(ProtocolError, match="offsets of group g: the response does not contain t-0"):
                simple.fetch_offsets("g", [where])
            for call in (
                lambda: simple.get_offsets_before("t", 0),
                lambda: simple.earliest_or_latest_offset("t", 0, LATEST),
            ):
                with pytest.raises(ProtocolError, match="offsets of t-0: the response does not contain this"):
                    call()


def test_rows_47_and_48_a_message_that_is_cut_off_is_an_error_or_left_for_the_next_fetch() -> None:
    """The broker returns the bytes that fit, as brokers before Kafka 0.10.1 do."""
    with Broker(auto_create_topics=False) as broker, Feed(broker) as feed:
        topic = feed.topic(1)
        for number in range(2):
            feed.send(topic, [str(number) * 500])
        (log,) = (broker.data_dir / f"{topic}-0").glob("*.log")
        stored = log.read_bytes()

    def cut(request: FetchRequest) -> FetchResponse:
        (asked,) = request.topics[0].partitions
        start = len(stored) // 2 * asked.fetch_offset
        data = FetchResponse.FetchableTopicResponse.PartitionData(
            high_watermark=2, records=stored[start:][: asked.partition_max_bytes]
        )
        return FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic=topic, partitions=[data])])

    with ScriptedBroker() as peer:
        peer.on(FetchRequest, cut)
        with SimpleConsumer.connect(peer.host, peer.port) as simple:
            small = simple.fetch(PartitionFetch(topic, 0, 0, 300))
            assert small.error_code == 0
            with pytest.raises(
                MessageTooLargeError, match=f"offset 0 of {topic}-0 is larger than max_bytes=300"
            ):
                list(small)
            size = 300
            while simple.fetch(PartitionFetch(topic, 0, 0, size)).error is not None:
                size *= 2
            fetched = simple.fetch(PartitionFetch(topic, 0, 0, size))
            assert size == 600, "row 47: doubling succeeds"
            assert ([each.offset for each in fetched], fetched.next_offset) == ([0], 1), "row 48"
            again = simple.fetch(PartitionFetch(topic, 0, 1, 1000))
            assert [each.value for each in again] == [b"1" * 500], "row 48: whole the next time"


def test_close_is_final(feed: Feed) -> None:
    simple = connected(feed.bootstrap_servers)
    simple.topic_metadata()
    simple.close()
    simple.close()
    assert repr(simple) == f"<BrokerConsumer of '{feed.bootstrap_servers}', closed>"
    with pytest.raises(ClosedError):
        simple.topic_metadata()


def test_one_that_is_left_open_warns_and_cannot_be_pickled(feed: Feed) -> None:
    simple = connected(feed.bootstrap_servers)
    with pytest.raises(TypeError, match="BrokerConsumer cannot be pickled"):
        pickle.dumps(simple)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del simple
    said = [
        each.category for each in caught if "BrokerConsumer" in str(each.message)
    ]  # and no garbage of other tests
    assert said == [ResourceWarning]


_connect: Any = SimpleConsumer.connect
"""The method without its types, because the calls below have arguments of wrong types."""


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: _connect(""), ConfigurationError, "bootstrap_servers"),
        (lambda: _connect("a,b"), ConfigurationError, "host='a,b' is not the name"),
        (lambda: _connect("a:1"), ConfigurationError, "pass the port as another argument"),
        (
            lambda: _connect("a", 0),
            ConfigurationError,
            "port=0 is out of range; choose a number from 1 to 65535",
        ),
        (lambda: _connect("a", "9092"), TypeError, "port takes a whole number"),
        (lambda: _connect(["a"]), TypeError, "host takes a str"),
        (lambda: _connect("a", zookeeper="z"), ConfigurationError, "zookeeper is set, but"),
        (lambda: _connect("a", group_id="g"), ConfigurationError, "unknown option 'group_id'"),
    ],
)
def test_an_address_that_is_none_is_an_error(
    make: Callable[[], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        make()


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (
            lambda it: it.fetch(("t", 0, 0)),
            TypeError,
            r"request must be a PartitionFetch or a SimpleFetchRequest, .* write fetch\(PartitionFetch\(",
        ),
        (lambda it: it.fetch("t", 0, 0), TypeError, r"write fetch\(PartitionFetch\(topic, partition, offset"),
        (lambda it: it.fetch("t", partition=0), TypeError, r"write fetch\(PartitionFetch\("),
        (lambda it: it.multifetch({"t": 0}), TypeError, "fetches takes a list"),
        (lambda it: it.multifetch([("t", 0)]), TypeError, "each item of fetches must be a PartitionFetch"),
        (
            lambda it: it.multifetch([PartitionFetch("t", 0, 0)] * 32_768),
            ConfigurationError,
            "32,768 entries; at most 32,767",
        ),
        (
            lambda it: it.fetch(SimpleFetchRequest((PartitionFetch("t", 0, 0),), max_wait_ms=30_000)),
            ConfigurationError,
            "max_wait_ms=30000 of the request is not less than request_timeout_ms=30000",
        ),
        (lambda it: it.get_offsets_before("t", 0, -3), ConfigurationError, "timestamp_ms=-3 is out of range"),
        (lambda it: it.get_offsets_before("t", 0, -1, 0), ConfigurationError, "max_offsets=0"),
        (
            lambda it: it.commit_offsets("g", {}, "disk"),
            ConfigurationError,
            "offsets_storage='disk' is not one",
        ),
        (lambda it: it.commit_offsets("", {}), ConfigurationError, "group_id must not be empty"),
        (lambda it: it.commit_offsets("g", {("t", 0): -1}), ConfigurationError, "positions"),
        (lambda it: it.fetch_offsets("g", "t"), TypeError, "partitions takes several partitions"),
        (lambda it: it.find_coordinator(None), TypeError, "group_id takes a str"),
        (lambda it: it.topic_metadata("no spaces"), ConfigurationError, "not a valid name of a topic"),
    ],
)
def test_a_wrong_argument_is_an_error_before_anything_is_sent(
    call: Callable[[Any], object], error: type[Exception], said: str
) -> None:
    with ScriptedBroker() as broker, SimpleConsumer.connect(broker.host, broker.port) as simple:
        with pytest.raises(error, match=said):
            call(simple)
        assert broker.accepted == 0

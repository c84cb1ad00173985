"""The metrics of clients agree with what is counted outside: by a proxy, by the broker and by the test."""

from collections import Counter
from itertools import islice

import pytest

from pyklient import Admin, Message, Producer, TopicPartition
from pyklient.metrics import BrokerMetrics
from pyklient.protocol.messages import (
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SyncGroupRequest,
)
from pyklient.protocol.records import iter_batches
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.recording_proxy import Exchange, RecordingProxy
from tests.system.reading import connector

pytestmark = pytest.mark.brokers(min="2.4")

_KINDS = (
    FetchRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SyncGroupRequest,
)


def requests_seen(proxy: RecordingProxy) -> dict[str, tuple[int, int]]:
    """Return the number and the bytes of the requests of each kind that the proxy has forwarded."""
    counted: dict[str, tuple[int, int]] = {}
    for exchange in list(proxy.exchanges):
        name = type(exchange.request).__name__.removesuffix("Request")
        number, size = counted.get(name, (0, 0))
        counted[name] = number + 1, size + exchange.size + 4
    return counted


def requests_counted(brokers: dict[int, BrokerMetrics]) -> dict[str, tuple[int, int]]:
    """Return the same of the metrics *brokers*."""
    counted: dict[str, tuple[int, int]] = {}
    for name, requests in [each for broker in brokers.values() for each in broker.requests.items()]:
        number, size = counted.get(name, (0, 0))
        counted[name] = number + requests.answered, size + requests.bytes_sent
    names = {kind.__name__.removesuffix("Request") for kind in _KINDS}
    return {name: both for name, both in counted.items() if name in names}


def fetched_bytes(exchanges: list[Exchange]) -> Counter[int]:
    """Return the bytes of records that each partition has got in the responses to fetches."""
    found: Counter[int] = Counter()
    for exchange in exchanges:
        if isinstance(exchange.response, FetchResponse):
            for topic in exchange.response.responses:
                for data in topic.partitions:
                    found[data.partition_index] += len(data.records or b"")
    return found


@pytest.mark.both_kernels
def test_a_producers_metrics_are_what_the_broker_got(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    with RecordingProxy(bootstrap, *_KINDS) as proxy:
        with Producer(proxy.bootstrap_servers, batch_size=2000, linger_ms=20, client_id="m") as producer:
            for number in range(900):
                producer.send(topic, b"%050d" % number, partition=number % 9 // 4)
            producer.flush()
            found = producer.metrics()
        batches: Counter[int] = Counter()
        records: Counter[int] = Counter()
        sizes: Counter[int] = Counter()
        for exchange in proxy.exchanges:
            if isinstance(exchange.request, ProduceRequest):
                for data in exchange.request.topic_data[0].partition_data:
                    for batch in iter_batches(bytes(data.records or b"")):
                        batches[data.index] += 1
                        records[data.index] += batch.count
                        sizes[data.index] += len(batch.buffer)
        assert requests_counted(dict(found.brokers)) == requests_seen(proxy)
    ends = end_offsets(bootstrap, topic, 3)
    for partition, end in ends.items():
        delivered, number = found.partitions[partition].delivered, partition.partition
        assert (delivered.batches, delivered.bytes) == (batches[number], sizes[number])
        assert delivered.records == records[number] == end
    assert (found.delivered.records, found.delivered.bytes) == (900, sum(sizes.values()))
    assert found.queue_time.count == found.delivery_time.count == found.delivered.batches
    assert (found.waiting_records, found.failed_records, found.retried_batches, found.errors) == (0, 0, 0, {})


@pytest.mark.both_kernels
def test_a_connectors_metrics_are_what_it_read_and_committed(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=3), new_name()
    with Producer(bootstrap, batch_size=1000) as producer:
        for number in range(600):
            producer.send(topic, b"%030d" % number, partition=number % 3)
    options = {"enable_auto_commit": False, "fetch_max_wait_ms": 100}
    with RecordingProxy(bootstrap, *_KINDS) as proxy:
        with connector(proxy.bootstrap_servers, group, **options) as reader:
            stream = reader.stream(topic)
            got: list[Message] = list(islice(stream, 250))
            reader.commit_offsets()
            found = reader.metrics()
            counted = Counter(message.partition for message in got)
            for partition, end in end_offsets(bootstrap, topic, 3).items():
                read = found.partitions[partition]
                assert read.consumed.records == read.position == counted[partition.partition]
                assert (read.end, read.lag) == (end, end - counted[partition.partition])
            assert (found.consumed.records, found.lag) == (250, 350)
            assert (found.commits.commits, found.commits.failed) == (1, 0)
            assert found.commits.offsets == 3, "an offset that was looked up is committed too"
            for batch in stream.batches(100, timeout=30):
                got += batch
                if len(got) >= 600:
                    break
        after = reader.metrics()
        assert len(got) == after.consumed.records == 600
        assert [each.consumed.records for each in after.partitions.values()] == [200] * 3
        assert [(each.assigned, each.lag) for each in after.partitions.values()] == [(False, None)] * 3
        assert after.fetched.bytes == after.consumed.bytes == sum(fetched_bytes(proxy.exchanges).values())
        seen, known = requests_seen(proxy), requests_counted(dict(after.brokers))
        assert known.pop("Fetch")[0] <= seen.pop("Fetch")[0], "the last fetch may end with the connection"
        assert known == seen
        assert after.rebalances.assignments == after.rebalances.durations.count == 1
        assert after.rebalances.revoked_partitions == 3
    with Admin(bootstrap) as admin:
        stored = {at.partition: each.offset for at, each in admin.group_offsets(group).items()}
        assert stored == {number: counted[number] for number in range(3)}


def end_offsets(bootstrap: str, topic: str, partitions: int) -> dict[TopicPartition, int]:
    """Return the end of the log of each partition, as the broker tells it."""
    with Admin(bootstrap) as admin:
        return admin.end_offsets([TopicPartition(topic, number) for number in range(partitions)])


@pytest.mark.both_kernels
def test_what_is_handed_out_again_or_dropped_counts_as_often_as_a_loop_got_it(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic = new_topic(partitions=1)
    partition = TopicPartition(topic, 0)
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(100)])
    with connector(bootstrap, new_name()) as reader:
        stream = reader.stream(topic)
        got = list(islice(stream, 10))
        stream.redeliver()
        got += islice(stream, 5)
        got += next(stream.batches(20, timeout=30))
        stream.redeliver()
        got += next(stream.batches(30, timeout=30))
        stream.seek(partition, 90)
        got += islice(stream, 4)
        found = reader.metrics()
        assert [message.offset for message in got[-4:]] == [90, 91, 92, 93]
        assert found.partitions[partition].consumed.records == found.consumed.records == len(got)
        assert (found.partitions[partition].position, found.lag) == (94, 6)

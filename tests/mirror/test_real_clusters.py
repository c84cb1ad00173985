"""Mirrors between real clusters: from Kafka 0.8.2.2, with a group in ZooKeeper, to Kafka 4.3.1."""

import confluent_kafka

from pyklient import Admin, Producer, TopicPartition, read
from pyklient.mirror import audit
from tests.mirror.running import running, stored, until
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic, stored_records
from tests.servers.zookeeper_kafka import ZooKeeperKafka


def test_topics_of_0_8_2_are_mirrored_to_the_newest_release(
    oldest_kafka: ZooKeeperKafka, newest_kafka: KraftCluster, new_name: NewName
) -> None:
    topic, group = new_name(), new_name()
    oldest_kafka.create_topic(topic, 3)
    with Producer(oldest_kafka.bootstrap_servers, compression_type="gzip") as producer:
        for number in range(3_000):
            producer.send(topic, b"v%d" % number, key=b"k%d" % (number % 100))
    reading = {
        "bootstrap_servers": oldest_kafka.bootstrap_servers,
        "zookeeper": oldest_kafka.zookeeper_connect,
        "coordination": "zookeeper",
    }
    goal = newest_kafka.bootstrap_servers
    with Admin(oldest_kafka.bootstrap_servers, zookeeper=oldest_kafka.zookeeper_connect) as admin:
        ends = admin.end_offsets([TopicPartition(topic, number) for number in range(3)])
        options = {"group_id": group, "keep_partitions": True, "commit_interval": 0.2}
        with running(reading, goal, topic, **options) as run:
            until(
                lambda: run.error or admin_offsets(admin, group) == ends,
                "the commit of the last offsets in ZooKeeper",
            )
        assert run.error is None
    expected = {
        number: [
            (each.key, each.value)
            for each in read(oldest_kafka.bootstrap_servers, topic)
            if each.partition == number
        ]
        for number in range(3)
    }
    found: dict[int, list[tuple[object, object]]] = {number: [] for number in range(3)}
    for record in stored_records(goal, topic):
        found[record.partition() or 0].append((record.key(), record.value()))
    assert found == expected


def test_the_newest_release_stores_batches_that_are_passed_on(
    reference_broker: ReferenceBroker, newest_kafka: KraftCluster, new_name: NewName
) -> None:
    topic, start, goal = new_name(), reference_broker.bootstrap_servers, newest_kafka.bootstrap_servers
    create_topic(start, topic, 2)
    expected: list[tuple[object, ...]] = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(start, compression_type=codec, batch_size=10_000) as producer:
            for number in range(1_000):
                fields = number % 2, b"k%d" % number, b"v" * (number % 90), 1_700_000_000_000 + number
                producer.send(topic, fields[2], fields[1], fields[0], fields[3], [("codec", codec.encode())])
                expected.append((*fields, [("codec", codec.encode())]))
    with running(start, goal, topic, group_id=new_name(), keep_partitions=True) as run:
        until(lambda: run.error or stored(goal, topic) == len(expected), "all records")
    found = [
        (each.partition(), each.key(), each.value(), each.timestamp()[1], each.headers())
        for each in stored_records(goal, topic)
    ]
    for partition in range(2):  # in their order
        assert [each for each in found if each[0] == partition] == [
            each for each in expected if each[0] == partition
        ]


def transaction(producer: confluent_kafka.Producer, topic: str, *values: bytes, commit: bool) -> None:
    """Send *values* to *topic* in one transaction."""
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def test_only_committed_transactions_are_mirrored(
    newest_kafka: KraftCluster, reference_broker: ReferenceBroker, new_name: NewName
) -> None:
    """An audit takes such a copy for equal. The lag becomes 0, although markers of transactions are not
    copied."""
    topic, start, goal = new_name(), newest_kafka.bootstrap_servers, reference_broker.bootstrap_servers
    create_topic(start, topic, 1)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": start, "transactional.id": topic, "log_level": 0}
    )
    producer.init_transactions(30)
    plain = confluent_kafka.Producer({"bootstrap.servers": start, "compression.type": "gzip"})
    expected: list[bytes] = []
    for number in range(6):
        values = [b"%d-%d" % (number, each) for each in range(50)]
        transaction(producer, topic, *values, commit=number % 2 == 0)
        expected += [] if number % 2 else values
        for each in range(20):
            plain.produce(topic, b"plain %d-%d" % (number, each), partition=0)
        assert plain.flush(60) == 0
        expected += [b"plain %d-%d" % (number, each) for each in range(20)]
    transaction(producer, topic, b"last", commit=False)
    with running(start, goal, topic, group_id=new_name(), keep_partitions=True) as run:
        until(lambda: run.error or stored(goal, topic) >= len(expected), "all records")

        def has_no_lag() -> bool:
            metrics = run.mirror.metrics()
            return metrics is not None and metrics.lag == 0

        until(lambda: run.error or has_no_lag(), "a lag of 0")
    assert run.error is None
    assert [record.value() for record in stored_records(goal, topic)] == expected
    (row,) = audit(start, goal, topic)
    assert row.equal, row.difference


def admin_offsets(admin: Admin, group: str) -> dict[TopicPartition, int]:
    """Return the offsets that *group* has committed in ZooKeeper; none if it does not exist yet."""
    if group not in [each.group_id for each in admin.groups(coordination="zookeeper")]:
        return {}
    offsets = admin.group_offsets(group, coordination="zookeeper")
    return {partition: each.offset for partition, each in offsets.items()}

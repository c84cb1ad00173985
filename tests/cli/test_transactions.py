"""``pyklient transactions`` on Kafka 4.3.1: transactions that are open, that hang, and that end."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType

from pyklient import Admin, BrokerError, ConfigurationError, TopicPartition, read
from pyklient.config import ClientConfig
from pyklient.kernel import encode_batch
from pyklient.net.dialogue import Ask, Dialogue, Refresh
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import InitProducerIdRequest, ProduceRequest
from pyklient.protocol.records import NewRecord
from tests.cli.conftest import Done, Pyklient
from tests.interop.transactions import begin, transactional
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.process import wait_until
from tests.servers.topics import admin, create_topic

pytestmark = pytest.mark.java

VERIFICATION = "transaction.partition.verification.enable"
WITHOUT_ADDING = 11
"""The last version of Produce that does not add partitions to the transaction."""


@pytest.fixture
def transactions(pyklient: Pyklient, newest_kafka: KraftCluster) -> Pyklient:
    """Return a function that runs ``pyklient transactions`` on the broker of Kafka 4.3.1."""

    def transactions(*arguments: str) -> Done:
        return pyklient("transactions", *arguments, "-b", newest_kafka.bootstrap_servers)

    return transactions


@pytest.fixture
def unverified(newest_kafka: KraftCluster) -> Iterator[None]:
    """Make the brokers store transactional records in partitions that do not belong to the transaction."""
    client = admin(newest_kafka.bootstrap_servers)

    def verify(value: str) -> None:
        entry = ConfigEntry(VERIFICATION, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        for result in client.incremental_alter_configs([resource]).values():
            result.result(timeout=30)

    verify("false")
    yield
    verify("true")


def hang(bootstrap: str, where: TopicPartition, name: str) -> None:
    """Leave a transaction hanging: write a transactional record without adding its partition."""
    client = NetworkClient(ClientConfig.from_options({"bootstrap_servers": bootstrap}))
    try:
        wait_until(lambda: client.play(_write(where, name), 30) == 0, 60, "a record that hangs", poll=0.2)
    finally:
        client.close()


def _write(where: TopicPartition, name: str) -> Dialogue[int]:
    coordinator = yield from find_coordinator(name, 1)
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    identity: Any = yield Ask(coordinator, request)
    if identity.error_code:
        return int(identity.error_code)
    records = encode_batch(
        [NewRecord(1_700_000_000_000, None, b"hanging", ())],
        transactional=True,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        base_sequence=0,
    )
    metadata: Any = yield Refresh([where.topic])
    data = ProduceRequest.TopicProduceData.PartitionProduceData(index=where.partition, records=records)
    produce = ProduceRequest(
        transactional_id=name,
        acks=-1,
        timeout_ms=30_000,
        topic_data=[ProduceRequest.TopicProduceData(name=where.topic, partition_data=[data])],
    )
    response: Any = yield Ask(metadata.leader(where).id, produce, max_version=WITHOUT_ADDING)
    return int(response.responses[0].partition_responses[0].error_code)


def values(bootstrap: str, topic: str) -> list[bytes | None]:
    return [message.value for message in read(bootstrap, topic, isolation_level="read_committed")]


def shown(done: Done) -> Any:
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_an_open_transaction_is_listed_and_described_and_not_aborted(
    transactions: Pyklient, newest_kafka: KraftCluster, new_name: NewName
) -> None:
    bootstrap = newest_kafka.bootstrap_servers
    topic, name = create_topic(bootstrap, new_name(), 2), new_name()
    producer = transactional(bootstrap, name, transaction_timeout_ms=50_000)
    begin(producer, topic, "one", partition=1)

    listed = shown(transactions("list", "--state", "ongoing", "--json"))
    [mine] = [each for each in listed if each["transactional_id"] == name]
    assert mine["state"] == "Ongoing"
    assert name in transactions("list").text
    assert name not in transactions("list", "--longer-than", "3600").text

    described = shown(transactions("describe", name, "--json"))
    assert described["partitions"] == [f"{topic}-1"]
    assert described["timeout_ms"] == 50_000
    assert (described["producer_id"], described["state"]) == (mine["producer_id"], "Ongoing")
    done = transactions("describe", name)
    assert f"{name}: Ongoing, producer id {mine['producer_id']}, epoch 0, time-out 50 s" in done.text
    assert done.text.split()[-4:] == ["topic", "partition", topic, "1"]

    [opened] = shown(transactions("open", topic, "--json"))
    assert opened == {
        "topic": topic,
        "partition": 1,
        "offset": 0,
        "hangs": False,
        "transactional_id": name,
        "producer_id": mine["producer_id"],
        "producer_epoch": described["producer_epoch"],
        "last_timestamp_ms": opened["last_timestamp_ms"],
        "timeout_ms": 50_000,
    }
    assert shown(transactions("open", topic, "--hanging", "--json")) == []
    assert topic in transactions("open").text, "of all topics"

    refused = transactions("abort", topic, "1", "0")
    assert refused.code == 2
    assert "does not hang: it belongs to the transactional id" in refused.err
    producer.commit_transaction(60)
    wait_until(lambda: values(bootstrap, topic) == [b"one"], 60, "the committed record")
    assert shown(transactions("open", topic, "--json")) == []
    missing = transactions("abort", topic, "1", "0")
    assert (missing.code, missing.err.count("the partition has no open transaction")) == (2, 1)
    assert shown(transactions("describe", name, "--json"))["began_ms"] is None
    assert "no transaction is open" in transactions("describe", name).text


def test_a_transaction_that_hangs_is_found_and_aborted(
    transactions: Pyklient, newest_kafka: KraftCluster, new_name: NewName, unverified: None
) -> None:
    bootstrap = newest_kafka.bootstrap_servers
    topic, name = create_topic(bootstrap, new_name()), new_name()
    producer = transactional(bootstrap, f"{name}-other")
    begin(producer, topic, "before")
    producer.commit_transaction(60)
    hang(bootstrap, TopicPartition(topic, 0), name)
    begin(producer, topic, "after")
    producer.commit_transaction(60)
    wait_until(lambda: values(bootstrap, topic) == [b"before"], 60, "the first record")

    [hanging] = shown(transactions("open", "--hanging", topic, "--json"))
    assert (hanging["offset"], hanging["hangs"], hanging["transactional_id"]) == (2, True, name)
    with (
        Admin(bootstrap) as client,
        pytest.raises(
            ConfigurationError, match=r"begins at offset 1 of .* transactions of this partition begin at 2"
        ),
    ):
        client.abort_transaction(TopicPartition(topic, 0), 1)
    done = transactions("abort", topic, "0", "2")
    assert (done.code, done.err) == (0, "")
    assert done.text.strip() == (
        f"aborted the transaction of producer id {hanging['producer_id']} at offset 2 of {topic}-0"
    )
    wait_until(lambda: values(bootstrap, topic) == [b"before", b"after"], 60, "the record after it")
    assert shown(transactions("open", topic, "--json")) == []


def test_an_open_transaction_is_aborted_by_force(
    transactions: Pyklient, newest_kafka: KraftCluster, new_name: NewName
) -> None:
    bootstrap = newest_kafka.bootstrap_servers
    topic, name = create_topic(bootstrap, new_name()), new_name()
    producer = transactional(bootstrap, name)
    begin(producer, topic, "one")
    done = transactions("abort", topic, "0", "0", "--force")
    assert (done.code, done.err) == (0, "")
    wait_until(lambda: shown(transactions("open", topic, "--json")) == [], 60, "the end")
    assert values(bootstrap, topic) == []


def test_a_transactional_id_that_nobody_knows_is_an_error(
    transactions: Pyklient, newest_kafka: KraftCluster, new_name: NewName
) -> None:
    name = new_name()
    done = transactions("describe", name)
    assert done.code == 1
    assert f"cannot describe the transactional id {name}: no such transactional id" in done.err
    with Admin(newest_kafka.bootstrap_servers) as client, pytest.raises(BrokerError) as raised:
        client.describe_transaction(name)
    assert raised.value.name == "TRANSACTIONAL_ID_NOT_FOUND"


def test_brokers_before_kafka_3_are_told_to_be_too_old(pyklient: Pyklient, zookeeper_kafka: Any) -> None:
    done = pyklient("transactions", "list", "-b", zookeeper_kafka.bootstrap_servers)
    assert done.code == 1
    assert "supports no version of ListTransactions, which needs Kafka 3.0 or later" in done.err


def test_lag_counts_up_to_the_last_stable_offset_if_members_read_committed_records(
    pyklient: Pyklient, newest_kafka: KraftCluster, new_name: NewName
) -> None:
    bootstrap = newest_kafka.bootstrap_servers
    topic, group = create_topic(bootstrap, new_name()), new_name()
    where = TopicPartition(topic, 0)
    producer = transactional(bootstrap, group)
    begin(producer, topic, "one")
    producer.commit_transaction(60)
    begin(producer, topic, "two", "three")
    committed = ("--isolation-level", "read_committed")
    with Admin(bootstrap) as client:
        client.reset_offsets(group, {where: 1}, execute=True)
        assert client.end_offsets([where], isolation_level="read_committed") == {where: 2}
        assert client.end_offsets([where]) == {where: 4}
        wrong: Any = "committed"
        with pytest.raises(ConfigurationError, match="'committed' is not one of"):
            client.end_offsets([where], isolation_level=wrong)
    for options, lag in (((), 3), (committed, 1)):
        described = shown(pyklient("groups", "describe", group, "--json", *options, "-b", bootstrap))
        assert (described["lag"], described["partitions"][0]["lag"]) == (lag, lag)
        top = shown(pyklient("top", topic, "-g", group, "--json", "-n", "1", *options, "-b", bootstrap))
        assert [each["lag"] for each in top["groups"]] == [lag]
    producer.abort_transaction(60)

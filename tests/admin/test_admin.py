"""Admin against every broker: its calls return when their work is done, and their errors say what failed and
why."""

import pickle
import sys
import warnings
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from pyklient.admin import Admin, PartitionLag
from pyklient.errors import (
    BrokerConnectionError,
    BrokerError,
    ClosedError,
    ConfigurationError,
    KafkaTimeoutError,
)
from pyklient.topic_partition import TopicPartition
from tests.servers import topics
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.topics import leaders

_ABSENT = 3


@pytest.fixture
def admin(bootstrap: str) -> Iterator[Admin]:
    with Admin(bootstrap) as admin:
        yield admin


def _group_with_offset(bootstrap: str, group: str, topic: str, offset: int) -> None:
    """Make a group without members that has committed *offset* in partition 0."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[LibrdkafkaPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def _fill(bootstrap: str, topic: str, count: int, partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number), partition=partition)
    assert producer.flush(60) == 0


def test_a_created_topic_has_its_leaders_when_the_call_returns(
    admin: Admin, bootstrap: str, new_name: NewName
) -> None:
    name = new_name()
    admin.create_topic(name, partitions=3)
    assert sorted(leaders(bootstrap, name)) == [0, 1, 2]
    assert all(leader >= 0 for leader in leaders(bootstrap, name).values())


def test_a_topic_is_described_with_its_partitions_and_the_settings_made_on_it(
    admin: Admin, new_name: NewName
) -> None:
    name = new_name()
    admin.create_topic(name, partitions=2, config={"retention.ms": "600000"})
    topic = admin.describe_topic(name)
    assert topic.name == name
    assert not topic.internal
    assert [part.partition for part in topic.partitions] == [0, 1]
    assert all(part.replicas == part.isr == (part.leader,) for part in topic.partitions)
    assert topic.config == {"retention.ms": "600000"}


def test_a_topic_that_exists_is_refused_by_name(admin: Admin, new_topic: NewTopic) -> None:
    name = new_topic()
    with pytest.raises(BrokerError, match=f"create topic {name}.*TOPIC_ALREADY_EXISTS") as caught:
        admin.create_topic(name)
    assert not caught.value.retriable


@pytest.mark.parametrize("name", ["", "with space", "x" * 250, ".."])
def test_a_name_that_no_topic_may_have_is_refused(admin: Admin, name: str) -> None:
    with pytest.raises(BrokerError, match="INVALID_TOPIC_EXCEPTION"):
        admin.create_topic(name)


def test_a_setting_that_does_not_exist_is_refused_in_the_brokers_words(
    admin: Admin, new_name: NewName
) -> None:
    with pytest.raises(BrokerError, match=r"no\.such\.setting.*INVALID_CONFIG"):
        admin.create_topic(new_name(), config={"no.such.setting": "1"})


def test_more_replicas_than_brokers_are_refused(admin: Admin, new_name: NewName) -> None:
    with pytest.raises(BrokerError, match="INVALID_REPLICATION_FACTOR"):
        admin.create_topic(new_name(), replication_factor=9)


@pytest.mark.parametrize("count", [0, -2])
def test_a_number_of_partitions_below_one_is_refused_before_anyone_is_asked(admin: Admin, count: int) -> None:
    with pytest.raises(ConfigurationError, match=f"partitions={count}"):
        admin.create_topic("never", partitions=count)


def test_topics_are_listed_without_the_brokers_own(admin: Admin, bootstrap: str, new_topic: NewTopic) -> None:
    name = new_topic()
    _group_with_offset(bootstrap, f"{name}-group", name, 0)
    assert name in admin.topics()
    assert not [each for each in admin.topics() if each.startswith("__consumer")]
    assert set(admin.topics()) <= set(admin.topics(internal=True))


def test_a_deleted_topic_is_gone_when_the_call_returns(admin: Admin, new_topic: NewTopic) -> None:
    name = new_topic()
    admin.delete_topic(name)
    assert name not in admin.topics()
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        admin.describe_topic(name)


def test_deleting_what_is_not_there_is_refused_at_once(admin: Admin, new_name: NewName) -> None:
    name = new_name()
    with pytest.raises(BrokerError, match=f"delete topic {name}.*UNKNOWN_TOPIC_OR_PARTITION"):
        admin.delete_topic(name, timeout=10)


def test_asking_about_a_topic_does_not_create_it(admin: Admin, new_name: NewName) -> None:
    name = new_name()
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION") as caught:
        admin.describe_topic(name)
    assert caught.value.code == _ABSENT
    assert name not in admin.topics()


def test_a_topic_grows_to_the_number_of_partitions_given(admin: Admin, new_topic: NewTopic) -> None:
    name = new_topic(partitions=1)
    admin.create_partitions(name, 4)
    assert [part.partition for part in admin.describe_topic(name).partitions] == [0, 1, 2, 3]
    assert all(part.leader >= 0 for part in admin.describe_topic(name).partitions)


def test_a_topic_does_not_shrink(admin: Admin, new_topic: NewTopic) -> None:
    name = new_topic(partitions=2)
    with pytest.raises(BrokerError, match="INVALID_PARTITIONS"):
        admin.create_partitions(name, 1)


def test_offsets_say_where_a_partition_begins_and_ends(
    admin: Admin, bootstrap: str, new_topic: NewTopic
) -> None:
    name = new_topic(partitions=2)
    _fill(bootstrap, name, 5)
    partitions = [TopicPartition(name, 0), TopicPartition(name, 1)]
    assert admin.start_offsets(partitions) == dict.fromkeys(partitions, 0)
    assert admin.end_offsets(partitions) == {partitions[0]: 5, partitions[1]: 0}


def test_a_group_shows_its_offsets_and_its_lag(
    admin: Admin, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    _fill(bootstrap, topic, 5)
    _group_with_offset(bootstrap, group, topic, 2)
    where = TopicPartition(topic, 0)
    assert {tp: position.offset for tp, position in admin.group_offsets(group).items()} == {where: 2}
    assert admin.group_lag(group) == {where: PartitionLag(committed=2, end=5)}
    assert admin.group_lag(group)[where].lag == 3
    assert group in [listed.group_id for listed in admin.groups()]


def test_partitions_without_a_committed_offset_lag_from_the_start_of_their_log(
    admin: Admin, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=3), new_name()
    _fill(bootstrap, topic, 5)
    _fill(bootstrap, topic, 7, partition=1)
    _group_with_offset(bootstrap, group, topic, 2)
    lags = admin.group_lag(group)
    assert lags == {
        TopicPartition(topic, 0): PartitionLag(committed=2, end=5),
        TopicPartition(topic, 1): PartitionLag(committed=None, end=7, start=0),
        TopicPartition(topic, 2): PartitionLag(committed=None, end=0, start=0),
    }
    assert [lag.lag for lag in lags.values()] == [3, 7, 0]


@pytest.mark.brokers(needs=["deletion of records"])
def test_records_that_retention_has_deleted_are_no_lag_of_a_partition_without_a_committed_offset(
    admin: Admin, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    _fill(bootstrap, topic, 7, partition=1)
    where = LibrdkafkaPartition(topic, 1, 4)
    topics.admin(bootstrap).delete_records([where])[where].result(30)
    _group_with_offset(bootstrap, group, topic, 0)
    lag = admin.group_lag(group)[TopicPartition(topic, 1)]
    assert (lag, lag.lag) == (PartitionLag(committed=None, end=7, start=4), 3)


def test_topics_that_members_subscribe_to_lag_though_nothing_of_them_is_committed(
    admin: Admin, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    read, unread, group = new_topic(), new_topic(), new_name()
    _fill(bootstrap, read, 5)
    _fill(bootstrap, unread, 4)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )
    consumer.subscribe([read, unread])
    while not consumer.assignment():
        consumer.poll(0.1)
    consumer.commit(offsets=[LibrdkafkaPartition(read, 0, 2)], asynchronous=False)
    assert admin.group_lag(group) == {
        TopicPartition(read, 0): PartitionLag(committed=2, end=5),
        TopicPartition(unread, 0): PartitionLag(committed=None, end=4, start=0),
    }
    consumer.close()


def test_the_lag_of_a_group_leaves_out_a_topic_that_is_gone(
    admin: Admin, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    kept, gone, group = new_topic(), new_topic(), new_name()
    _group_with_offset(bootstrap, group, kept, 0)
    _group_with_offset(bootstrap, group, gone, 0)
    admin.delete_topic(gone)
    assert list(admin.group_lag(group)) == [TopicPartition(kept, 0)]


def test_a_group_is_described_with_its_members_and_what_they_hold(
    admin: Admin, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(partitions=2), new_name()
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "someone", "log_level": 0}
    )
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    found = admin.describe_group(group)
    assert (found.group_id, found.state, found.protocol_type) == (group, "Stable", "consumer")
    assert found.protocol == "range"
    [member] = found.members
    assert member.client_id == "someone"
    assert member.assignment == (TopicPartition(topic, 0), TopicPartition(topic, 1))
    assert member.subscription == (topic,)
    with pytest.raises(BrokerError, match=f"delete group {group}.*NON_EMPTY_GROUP"):
        admin.delete_group(group)
    consumer.close()


def test_a_deleted_group_and_its_offsets_are_gone(
    admin: Admin, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    _group_with_offset(bootstrap, group, topic, 1)
    admin.delete_group(group)
    assert admin.group_offsets(group) == {}
    with pytest.raises(BrokerError, match=f"delete group {group}.*GROUP_ID_NOT_FOUND"):
        admin.delete_group(group)


def test_a_group_that_is_not_there_is_said_to_be_so(admin: Admin, new_name: NewName) -> None:
    with pytest.raises(BrokerError, match="GROUP_ID_NOT_FOUND"):
        admin.describe_group(new_name())
    assert admin.group_offsets(new_name()) == {}
    name = new_name()
    with pytest.raises(BrokerError, match=f"group {name}.*: no such group .GROUP_ID_NOT_FOUND"):
        admin.group_lag(name)


def test_a_group_that_has_committed_nothing_has_no_offsets_and_everything_to_read(
    admin: Admin, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    _fill(bootstrap, topic, 3)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0}
    )
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)
    assert admin.group_offsets(group) == {}
    assert admin.group_lag(group) == {TopicPartition(topic, 0): PartitionLag(None, end=3, start=0)}
    consumer.close()


def test_the_cluster_names_its_brokers(admin: Admin) -> None:
    cluster = admin.cluster()
    assert cluster.brokers
    assert cluster.controller_id in [node.id for node in cluster.brokers]
    assert cluster.cluster_id


def test_an_admin_does_not_pickle_and_says_what_to_do() -> None:
    with (
        Admin("localhost:1") as admin,
        pytest.raises(TypeError, match="create it in the process that uses it"),
    ):
        pickle.dumps(admin)


def test_a_cluster_that_is_not_there_is_an_error_in_time_that_names_it() -> None:
    with (
        Admin("127.0.0.1:1") as admin,
        pytest.raises((BrokerConnectionError, KafkaTimeoutError), match=r"127\.0\.0\.1:1"),
    ):
        admin.topics(timeout=0.5)


def test_a_closed_admin_says_so_and_closes_again_without_complaint() -> None:
    admin = Admin("127.0.0.1:1")
    admin.close()
    admin.close()
    with pytest.raises(ClosedError):
        admin.topics(timeout=1)


def test_an_admin_left_open_is_noticed() -> None:
    with pytest.warns(ResourceWarning, match="Admin of '127.0.0.1:1'> was never closed"):
        Admin("127.0.0.1:1")


def test_an_admin_left_open_is_closed_also_with_warnings_as_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda raising: raised.append(raising.exc_type))
    admin = Admin("127.0.0.1:1")
    client = admin._client
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del admin
    assert raised == [ResourceWarning]
    with pytest.raises(ClosedError):
        client.pause(0)

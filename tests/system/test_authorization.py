"""Consumers whose user may not read a topic or join a group, on a broker with ACLs."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from pyklient import BrokerError, ConsumerConnector, ConsumerTimeout, KafkaError, Producer, read
from pyklient.consumer.kafka_stream import KafkaStream
from tests.servers.fixtures import NewName
from tests.servers.groups import committed
from tests.servers.process import wait_until
from tests.servers.secure import GUEST, PASSWORD, SecureBroker
from tests.servers.topics import admin, create_topic

OPTIONS: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": GUEST,
    "sasl_password": PASSWORD,
    "metadata_max_age_ms": 300,
}
READING: dict[str, Any] = {
    **OPTIONS,
    "auto_offset_reset": "earliest",
    "consumer_timeout_ms": 30_000,
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 200,
}


@contextmanager
def denied(
    broker: SecureBroker, name: str, operation: AclOperation, kind: ResourceType = ResourceType.TOPIC
) -> Iterator[None]:
    """GUEST may not do *operation* on the topic, or other *kind*, of this *name* in the block."""
    facts = (kind, name, ResourcePatternType.LITERAL, f"User:{GUEST}", "*", operation)
    client = admin(broker.bootstrap_servers)
    for created in client.create_acls([AclBinding(*facts, AclPermissionType.DENY)]).values():
        created.result(30)
    try:
        yield
    finally:
        for deleted in client.delete_acls([AclBindingFilter(*facts, AclPermissionType.DENY)]).values():
            deleted.result(30)


def refused(stream: KafkaStream) -> bool:
    """Return True if a message is rejected, by an error that names the topic."""
    try:
        next(iter(stream))
    except BrokerError as error:
        return error.name == "TOPIC_AUTHORIZATION_FAILED" and stream.topics[0] in str(error)
    return False


def send(broker: SecureBroker, topic: str, count: int) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


@pytest.mark.parametrize("grouped", [True, False], ids=["group", "no group"])
def test_a_loop_over_a_topic_that_the_user_may_not_see_raises_until_the_user_may(
    secure_kafka: SecureBroker, new_name: NewName, grouped: bool
) -> None:
    topic, group = new_name(), new_name() if grouped else None
    create_topic(secure_kafka.bootstrap_servers, topic)
    send(secure_kafka, topic, 3)
    address = secure_kafka.address("PLAINSASL")
    with ExitStack() as while_denied:
        while_denied.enter_context(denied(secure_kafka, topic, AclOperation.ALL))
        wait_until(lambda: _hidden(address, topic), 60, "the ACL in force", poll=0.1)
        with ConsumerConnector(address, group_id=group, **READING) as connector:
            stream = connector.stream(topic)
            for _ in range(2):
                assert refused(stream)
            while_denied.close()
            wait_until(lambda: not refused(stream), 60, "a message", poll=0.05)
            assert next(iter(stream)).offset == 1


def _hidden(address: str, topic: str) -> bool:
    try:
        read(address, topic, **OPTIONS).close()
    except BrokerError as error:
        return error.name == "TOPIC_AUTHORIZATION_FAILED"
    return False


@pytest.mark.parametrize("operation", [AclOperation.READ, AclOperation.ALL], ids=["READ", "ALL"])
def test_a_loop_whose_user_loses_the_right_to_read_raises_and_a_new_one_goes_on_when_it_is_back(
    secure_kafka: SecureBroker, new_name: NewName, operation: AclOperation
) -> None:
    topic, group = new_name(), new_name()
    create_topic(secure_kafka.bootstrap_servers, topic)
    send(secure_kafka, topic, 2)
    with ConsumerConnector(secure_kafka.address("PLAINSASL"), group_id=group, **READING) as connector:
        stream = connector.stream(topic)
        messages = iter(stream)
        assert [next(messages).offset, next(messages).offset] == [0, 1]
        with denied(secure_kafka, topic, operation):
            assert refused(stream)
        send(secure_kafka, topic, 1)
        wait_until(lambda: not refused(stream), 60, "a message", poll=0.05)
        connector.commit_offsets()
    with ConsumerConnector(secure_kafka.address("PLAINSASL"), group_id=group, **READING) as connector:
        send(secure_kafka, topic, 1)
        assert next(iter(connector.stream(topic))).offset == 3


def test_a_group_that_the_user_may_not_join_is_refused_by_name(
    secure_kafka: SecureBroker, new_name: NewName
) -> None:
    topic, group = new_name(), new_name()
    create_topic(secure_kafka.bootstrap_servers, topic)

    def refusal() -> BrokerError | None:
        with ConsumerConnector(
            secure_kafka.address("PLAINSASL"), group_id=group, **{**READING, "consumer_timeout_ms": 200}
        ) as connector:
            try:
                next(iter(connector.stream(topic)))
            except BrokerError as error:
                return error
            except ConsumerTimeout:  # the ACL is not in force yet
                return None
            raise AssertionError("the topic is empty")

    with denied(secure_kafka, group, AclOperation.READ, ResourceType.GROUP):
        wait_until(lambda: refusal() is not None, 60, "the ACL in force")
        error = refusal()
    assert error is not None
    assert error.name == "GROUP_AUTHORIZATION_FAILED"
    assert group in str(error)


def test_a_member_that_loses_the_right_to_its_group_raises_and_commits_nothing(
    secure_kafka: SecureBroker, new_name: NewName
) -> None:
    topic, group = new_name(), new_name()
    create_topic(secure_kafka.bootstrap_servers, topic)
    send(secure_kafka, topic, 2)
    with ConsumerConnector(
        secure_kafka.address("PLAINSASL"), group_id=group, enable_auto_commit=False, **READING
    ) as connector:
        stream = connector.stream(topic)
        assert next(iter(stream)).offset == 0
        with denied(secure_kafka, group, AclOperation.READ, ResourceType.GROUP):
            with pytest.raises(BrokerError, match=group) as caught:
                for _ in stream:
                    pass
            assert caught.value.name == "GROUP_AUTHORIZATION_FAILED"
            with pytest.raises(KafkaError, match="GROUP_AUTHORIZATION_FAILED"):
                connector.commit_offsets()
    assert committed(secure_kafka.bootstrap_servers, group, topic) == {}

"""Topics as librdkafka sees them, so that the preparation of a test does not depend on the client under
test."""

import functools
import logging
import time
from collections.abc import Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec, TimestampSpec
from confluent_kafka.admin._metadata import TopicMetadata
from confluent_kafka.cimpl import NewTopic

from tests.servers.process import wait_until

__all__ = [
    "admin",
    "await_transaction_ends",
    "create_replicated_topic",
    "create_topic",
    "forget_admins",
    "leaders",
    "replicas_in_sync",
    "serves",
    "stored_records",
]

_READ_TIMEOUT = 120.0
_PATIENCE = 60.0
_PASSING = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TIMED_OUT,
    KafkaError._TRANSPORT,
    KafkaError.BROKER_NOT_AVAILABLE,
    KafkaError.INVALID_REPLICATION_FACTOR,
    KafkaError.NOT_CONTROLLER,
    KafkaError.REQUEST_TIMED_OUT,
}
"""The errors of a cluster whose brokers have stopped, or were so slow that the controller does not count on
them for a moment."""
_FIRST_API_VERSIONS = (0, 10)

_silent = logging.getLogger("tests.librdkafka")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


@functools.lru_cache(maxsize=16)
def admin(bootstrap_servers: str, version: tuple[int, ...] = _FIRST_API_VERSIONS) -> AdminClient:
    """Return an admin client that logs nothing. It is kept, because its responses become invalid with it.

    librdkafka asks brokers before 0.10 only if it is told their *version*.
    """
    return _new_admin(bootstrap_servers, version)


def forget_admins() -> None:
    """Make :func:`admin` return new clients from now on.

    A client that asks while the cluster has no controller, or a topic has no leaders, may remember that for
    five minutes, which is librdkafka's time between two refreshes of its metadata. So this is called after a
    broker has been restarted, and while a new topic is not served.
    """
    admin.cache_clear()


def _new_admin(bootstrap_servers: str, version: tuple[int, ...]) -> AdminClient:
    options: dict[str, Any] = {
        # librdkafka refreshes the metadata of all topics that it has seen, and would create again those that
        # tests have deleted.
        "allow.auto.create.topics": False,
        "bootstrap.servers": bootstrap_servers,
        "error_cb": lambda _error: None,
        "log_level": 0,
        "reconnect.backoff.max.ms": 200,
        "socket.timeout.ms": 5000,
    }
    if version < _FIRST_API_VERSIONS:
        options |= {"api.version.request": False, "broker.version.fallback": ".".join(map(str, version))}
    return AdminClient(options, logger=_silent)


def serves(bootstrap_servers: str, brokers: int = 1, version: tuple[int, ...] = _FIRST_API_VERSIONS) -> bool:
    """Return True if *bootstrap_servers* answer and name at least *brokers* live brokers and a controller.

    Brokers before 0.10 name no controller. *version* is that of the brokers.
    """
    try:
        metadata = _new_admin(bootstrap_servers, version).list_topics(timeout=1)
    except KafkaException:
        return False
    named = metadata.controller_id >= 0 or version < _FIRST_API_VERSIONS
    return len(metadata.brokers) >= brokers and named


def create_topic(
    bootstrap_servers: str,
    name: str,
    partitions: int = 1,
    config: Mapping[str, object] | None = None,
    *,
    replicas: int = -1,
) -> str:
    """Create a topic, ``config`` with underscores for dots; wait until each partition's leader serves it.

    Metadata names a leader a moment before that broker has made the partition's log. Until then the broker
    answers requests for the partition with NOT_LEADER_OR_FOLLOWER or UNKNOWN_TOPIC_OR_PARTITION.
    """
    settings = {"retention_ms": -1, **(config or {})}
    dotted = {key.replace("_", "."): str(value) for key, value in settings.items()}
    client = admin(bootstrap_servers)
    topic = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=dotted)

    def created() -> bool:
        try:
            client.create_topics([topic], request_timeout=20)[name].result(timeout=30)
        except KafkaException as error:
            code: int = error.args[0].code()
            # librdkafka asks again if the answer gets lost; no other test uses this name
            if code != KafkaError.TOPIC_ALREADY_EXISTS and code not in _PASSING:
                raise
            return code == KafkaError.TOPIC_ALREADY_EXISTS
        return True

    problems: list[str] = []

    def served() -> bool:
        problems[:] = _problems(bootstrap_servers, name, partitions)
        if problems:
            forget_admins()
        return not problems

    wait_until(created, _PATIENCE, f"the creation of {name}")
    try:
        wait_until(served, _PATIENCE, f"leaders of {name}")
    except TimeoutError as error:
        error.add_note("; ".join(problems))
        raise
    return name


def create_replicated_topic(bootstrap_servers: str, name: str, partitions: int = 1) -> str:
    """Create a topic with three replicas, and wait until all of them are in sync."""
    create_topic(bootstrap_servers, name, partitions, replicas=3)
    wait_until(
        lambda: replicas_in_sync(bootstrap_servers, name) == 3 * partitions, _PATIENCE, "replicas in sync"
    )
    return name


def _problems(bootstrap_servers: str, topic: str, partitions: int) -> list[str]:
    """Return why not each of *partitions* has a leader that answers for it; an empty list if it has."""
    found = leaders(bootstrap_servers, topic)
    if len(found) < partitions or min(found.values()) < 0:
        return [f"the leaders are {found}"]
    since_1970: OffsetSpec = TimestampSpec(0)
    wanted = {TopicPartition(topic, number): since_1970 for number in found}
    client = admin(bootstrap_servers)
    answers = client.list_offsets(wanted, request_timeout=10)
    failures = {each.partition: answer.exception(timeout=30) for each, answer in answers.items()}
    return [f"{number}: {failure}" for number, failure in failures.items() if failure is not None]


def await_transaction_ends(bootstrap_servers: str, topic: str) -> None:
    """Return once no transaction is open in *topic*.

    A broker answers the end of a transaction before its markers are in the partitions.
    """

    end: OffsetSpec = TimestampSpec(-1)  # this time stands for the end of the log

    def ends(level: IsolationLevel) -> dict[int, int]:
        wanted = {TopicPartition(topic, number): end for number in leaders(bootstrap_servers, topic)}
        client = admin(bootstrap_servers)
        answers = client.list_offsets(wanted, isolation_level=level, request_timeout=10)
        return {each.partition: answer.result(timeout=30).offset for each, answer in answers.items()}

    wait_until(
        lambda: ends(IsolationLevel.READ_COMMITTED) == ends(IsolationLevel.READ_UNCOMMITTED),
        30,
        f"the end of all transactions in {topic}",
    )


def leaders(
    bootstrap_servers: str, topic: str, version: tuple[int, ...] = _FIRST_API_VERSIONS
) -> dict[int, int]:
    """Return the id of each partition's leader, -1 for none; an empty dict for an unknown topic."""
    metadata = _metadata(bootstrap_servers, topic, version)
    return {number: partition.leader for number, partition in metadata.partitions.items()}


def replicas_in_sync(bootstrap_servers: str, topic: str) -> int:
    """Return the total number of in-sync replicas of all partitions of *topic*."""
    metadata = _metadata(bootstrap_servers, topic, _FIRST_API_VERSIONS)
    return sum(len(partition.isrs) for partition in metadata.partitions.values())


def _metadata(bootstrap_servers: str, topic: str, version: tuple[int, ...]) -> TopicMetadata:
    """Return what one of the brokers knows about *topic*. The broker that librdkafka asks first may just have
    been killed, and then librdkafka raises an error instead of asking another one."""
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return admin(bootstrap_servers, version).list_topics(topic, timeout=10).topics[topic]
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def stored_records(bootstrap: str, topic: str) -> Iterator[Message]:
    """Yield all records that *topic* contains now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-check", "log_level": 0})
    try:
        numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        bounds = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            for number in numbers
        }
        left = {number for number, (first, end) in bounds.items() if end > first}
        consumer.assign([TopicPartition(topic, number, bounds[number][0]) for number in left])
        deadline = time.monotonic() + _READ_TIMEOUT
        while left:
            assert time.monotonic() < deadline, f"{topic}: no record came from partitions {left}"
            for message in consumer.consume(10_000, timeout=1):
                assert message.error() is None, message.error()
                yield message
                number, offset = message.partition(), message.offset()
                assert number is not None
                assert offset is not None
                if offset + 1 >= bounds[number][1]:
                    left.discard(number)
    finally:
        consumer.close()

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
from confluent_kafka.cimpl import NewTopic

from tests.servers.process import wait_until

__all__ = [
    "admin",
    "await_transaction_ends",
    "create_topic",
    "forget_admins",
    "leaders",
    "replicas_in_sync",
    "serves",
    "stored_records",
]

_READ_TIMEOUT = 120.0
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
    """Make :func:`admin` return new clients from now on. Called after a broker has been restarted.

    A client that asks while the cluster has no controller or no leaders may remember that for five minutes,
    which is librdkafka's time between two refreshes of its metadata.
    """
    admin.cache_clear()


def _new_admin(bootstrap_servers: str, version: tuple[int, ...]) -> AdminClient:
    options: dict[str, Any] = {
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
    try:
        client.create_topics([topic], request_timeout=20)[name].result(timeout=30)
    except KafkaException as error:
        # librdkafka asks again if the answer gets lost; no other test uses this name
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise
    wait_until(lambda: _is_served(bootstrap_servers, name, partitions), 30, f"leaders of {name}")
    return name


def _is_served(bootstrap_servers: str, topic: str, partitions: int) -> bool:
    """Return True if each of *partitions* has a leader that answers for it."""
    found = leaders(bootstrap_servers, topic)
    if len(found) < partitions or min(found.values()) < 0:
        return False
    since_1970: OffsetSpec = TimestampSpec(0)
    wanted = {TopicPartition(topic, number): since_1970 for number in found}
    answers = admin(bootstrap_servers).list_offsets(wanted, request_timeout=10).values()
    return all(answer.exception(timeout=30) is None for answer in answers)


def await_transaction_ends(bootstrap_servers: str, topic: str) -> None:
    """Return once no transaction is open in *topic*.

    A broker answers the end of a transaction before its markers are in the partitions.
    """

    end: OffsetSpec = TimestampSpec(-1)  # this time stands for the end of the log

    def ends(level: IsolationLevel) -> dict[int, int]:
        wanted = {TopicPartition(topic, number): end for number in leaders(bootstrap_servers, topic)}
        answers = admin(bootstrap_servers).list_offsets(wanted, isolation_level=level, request_timeout=10)
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
    metadata = admin(bootstrap_servers, version).list_topics(topic, timeout=10).topics[topic]
    return {number: partition.leader for number, partition in metadata.partitions.items()}


def replicas_in_sync(bootstrap_servers: str, topic: str) -> int:
    """Return the total number of in-sync replicas of all partitions of *topic*."""
    metadata = admin(bootstrap_servers).list_topics(topic, timeout=10).topics[topic]
    return sum(len(partition.isrs) for partition in metadata.partitions.values())


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

"""Topics for the tests of Spark, filled by librdkafka, so that the records are not written by pyklient."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from confluent_kafka import Producer, TopicPartition

from pyklient import Admin
from tests.servers.process import wait_until
from tests.servers.topics import admin, await_transaction_ends

__all__ = ["delete_before", "delete_topic", "fill", "number_records", "transaction"]

_PATIENCE = 30.0


def fill(bootstrap: str, topic: str, records: Iterable[dict[str, Any]], **options: Any) -> None:
    """Send *records*, each the arguments of confluent-kafka's ``produce``. All are stored on return."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 2, **options})
    failed: list[object] = []

    def delivered(error: object, _: object) -> None:
        if error is not None:
            failed.append(error)

    for record in records:
        producer.produce(topic, on_delivery=delivered, **record)
    assert producer.flush(_PATIENCE) == 0
    assert not failed


def number_records(numbers: Iterable[int], partitions: int = 1) -> list[dict[str, Any]]:
    """Return records with a number as the value, divided among *partitions*; the number is also the time in
    seconds."""
    return [
        {"value": b"%d" % number, "partition": number % partitions, "timestamp": 1000 * (number + 1)}
        for number in numbers
    ]


def transaction(
    bootstrap: str,
    topic: str,
    values: Sequence[bytes],
    end: Callable[[Producer], None],
    *,
    partition: int = 0,
) -> None:
    """Send *values* in one transaction, which *end* commits or aborts. Return once readers see its end."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-tx"})
    producer.init_transactions(_PATIENCE)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value, partition=partition)
    producer.flush(_PATIENCE)
    end(producer)
    await_transaction_ends(bootstrap, topic)


def delete_topic(bootstrap: str, topic: str) -> None:
    """Delete *topic*, and wait until the broker no longer names it. A broker may answer before it has done
    what the controller decided."""
    with Admin(bootstrap) as client:
        client.delete_topic(topic)
        wait_until(lambda: topic not in client.topics(), _PATIENCE, f"{topic} deleted")


def delete_before(bootstrap: str, topic: str, offset: int, partition: int = 0) -> None:
    """Delete the records before *offset*, as retention does."""
    where = TopicPartition(topic, partition, offset)
    admin(bootstrap).delete_records([where])[where].result(_PATIENCE)

"""Reads topics with librdkafka in each isolation level, after all transactions have ended."""

from confluent_kafka import Consumer, TopicPartition

from tests.servers.process import wait_until
from tests.servers.topics import await_transaction_ends, leaders

__all__ = ["committed_values", "values"]


def committed_values(bootstrap: str, topic: str) -> list[bytes]:
    """Return the values of the records in *topic* that are not of aborted transactions, by partition."""
    return values(bootstrap, topic, "read_committed")


def values(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> list[bytes]:
    """Return the values of the records in *topic*, in the order of partitions and offsets."""
    await_transaction_ends(bootstrap, topic)
    numbers = sorted(leaders(bootstrap, topic))
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-{isolation}",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    found: dict[int, list[bytes]] = {number: [] for number in numbers}
    ended: set[int] = set()

    def read() -> bool:
        for message in consumer.consume(1000, timeout=0.1):
            number, value = message.partition(), message.value()
            assert number is not None
            if message.error() is not None:
                ended.add(number)
            else:
                found[number].append(value or b"")
        return len(ended) == len(numbers)

    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in numbers])
        wait_until(read, 60, f"the end of {topic}")
    finally:
        consumer.close()
    return [value for number in numbers for value in found[number]]

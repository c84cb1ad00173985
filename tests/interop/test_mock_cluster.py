"""pyklient's clients on librdkafka's mock cluster, which applications use in their own tests."""

from collections.abc import Iterator

import confluent_kafka
import pytest

from pyklient import ConsumerConnector, Message, Producer

pytestmark = pytest.mark.slow  # a rebalance of its groups takes seconds: about a session time-out

_RECORDS = 20_000
_KEYS = 100


@pytest.fixture
def mock_cluster() -> Iterator[str]:
    """The bootstrap servers of three mock brokers, which run as long as the client to which they belong."""
    owner = confluent_kafka.Producer(
        {"bootstrap.servers": "ignored", "test.mock.num.brokers": "3", "log_level": 4}
    )
    brokers = owner.list_topics(timeout=30).brokers.values()
    yield ",".join(f"{broker.host}:{broker.port}" for broker in brokers)
    assert owner.flush(0) == 0


def read_in_group(servers: str, topic: str, count: int) -> list[Message]:
    """Return the next *count* messages of the group. Each of them is committed when this returns."""
    messages: list[Message] = []
    with ConsumerConnector(
        servers,
        group_id="readers",
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
        session_timeout_ms=3_000,
        heartbeat_interval_ms=500,
    ) as connector:
        for message in connector.stream(topic):
            messages.append(message)
            if len(messages) == count:
                connector.commit_offsets()
                break
    return messages


def test_a_mock_cluster_of_three_takes_20_000_records_and_gives_them_back_in_order(
    mock_cluster: str,
) -> None:
    assert mock_cluster.count(",") == 2
    sent: dict[bytes, list[bytes]] = {b"key-%d" % number: [] for number in range(_KEYS)}
    with Producer(mock_cluster, enable_idempotence=True) as producer:
        deliveries = []
        for number in range(_RECORDS):
            key, value = b"key-%d" % (number % _KEYS), b"%d" % number
            deliveries.append(producer.send("clicks", value, key=key))
            sent[key].append(value)
        producer.flush(60)
        stored = {(delivery.result(0).partition, delivery.result(0).offset) for delivery in deliveries}
    assert len(stored) == _RECORDS

    # Two members after one another: the second goes on where the first has committed.
    messages = read_in_group(mock_cluster, "clicks", _RECORDS // 2)
    messages += read_in_group(mock_cluster, "clicks", _RECORDS // 2)

    offsets: dict[int, list[int]] = {}
    received: dict[bytes, list[bytes]] = {}
    for message in messages:
        assert message.key is not None
        assert message.value is not None
        offsets.setdefault(message.partition, []).append(message.offset)
        received.setdefault(message.key, []).append(message.value)
    assert received == sent
    assert len(offsets) > 1, "records of several partitions"
    assert offsets == {partition: list(range(len(found))) for partition, found in offsets.items()}

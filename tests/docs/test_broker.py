"""The pages about the reference broker: tables match the code, and what they say is missing is missing."""

from collections.abc import Callable, Iterator

import pytest

from pyklient import (
    Admin,
    AuthenticationError,
    BrokerError,
    KafkaTimeoutError,
    Producer,
    read,
)
from pyklient.broker import Broker
from tools.docs.broker_tables import PAGE, filled
from tools.repository import ROOT


def test_the_tables_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == filled(text), "run: python -m tools.docs.broker_tables"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def _is_one_node(broker: Broker) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        assert len(admin.cluster().brokers) == 1
        with pytest.raises(BrokerError, match="INVALID_REPLICATION_FACTOR"):
            admin.create_topic("twice", replication_factor=2)


def _has_no_security(broker: Broker) -> None:
    address = broker.bootstrap_servers
    assert address.startswith("127.0.0.1:")
    with (
        Admin(
            address, security_protocol="SASL_PLAINTEXT", sasl_username="me", sasl_password="secret"
        ) as admin,
        pytest.raises(AuthenticationError, match="does not use SASL"),
    ):
        admin.topics(timeout=30)
    with Admin(address, security_protocol="SSL") as admin, pytest.raises(KafkaTimeoutError):
        admin.topics(timeout=0.3)


def _compacts_nothing(broker: Broker) -> None:
    broker.create_topic("compact", config={"cleanup.policy": "compact", "segment.bytes": "100"})
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.describe_topic("compact").config["cleanup.policy"] == "compact"
    with Producer(broker.bootstrap_servers) as producer:
        for value in (b"old", b"new"):
            producer.send("compact", value, key=b"the same").result(timeout=30)
    assert [message.value for message in read(broker.bootstrap_servers, "compact")] == [b"old", b"new"]


@pytest.mark.parametrize(
    ("row", "holds"),
    [
        ("a cluster", _is_one_node),
        ("secure", _has_no_security),
        ("compacting", _compacts_nothing),
    ],
)
def test_what_the_page_says_it_is_not_it_is_not(
    row: str, holds: Callable[[Broker], None], broker: Broker
) -> None:
    assert f"\n| {row} |" in (ROOT / "docs" / "broker.md").read_text(encoding="utf-8")
    holds(broker)

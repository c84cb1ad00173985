"""A separate broker for each test that asks for one."""

from collections.abc import Iterator

import pytest

from pyklient.broker import Broker
from tests.broker.transactional_requests import Transactions
from tests.broker.wire_client import WireClient


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker) as connected:
        yield connected


@pytest.fixture
def transactions(broker: Broker, client: WireClient) -> Transactions:
    """A transactional producer, and a topic "clicks" with two partitions."""
    broker.create_topic("clicks", 2)
    return Transactions(client)

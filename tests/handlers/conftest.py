"""One reference broker for all tests of handlers. Each test uses its own topics."""

from collections.abc import Iterator

import pytest

from pyklient import Producer
from pyklient.broker import Broker


@pytest.fixture(scope="package")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture(scope="package")
def producer(broker: Broker) -> Iterator[Producer]:
    with Producer(broker.bootstrap_servers) as producer:
        yield producer

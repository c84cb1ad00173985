"""One reference broker for all tests of the consumer. Each test creates its own topics."""

import threading
from collections.abc import Iterator

import pytest

from pyklient.broker import Broker
from tests.consumer.feed import Feed, wait_for


@pytest.fixture(scope="package")
def _broker() -> Iterator[Broker]:
    with Broker(auto_create_topics=False) as broker:
        yield broker


@pytest.fixture(scope="package")
def feed(_broker: Broker) -> Iterator[Feed]:
    with Feed(_broker) as feed:
        yield feed


@pytest.fixture(autouse=True)
def _no_thread_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    kinds = (
        "fetcher",
        "leader-lookup",
        "start-lookup",
        "group",
        "rebalance",
        "topics",
        "commits",
        "open-transactions",
        "zookeeper",
        "parallel",
        "worker",
    )
    names = tuple(f"pyklient-{kind}" for kind in kinds)

    def left() -> list[str]:
        return [each.name for each in set(threading.enumerate()) - before if each.name.startswith(names)]

    wait_for(lambda: not left(), f"the end of {left()}")

"""Two reference brokers for all tests of mirrors: a source and a target. Each test uses its own topics."""

from collections.abc import Iterator

import pytest

from pyklient.broker import Broker


@pytest.fixture(scope="package")
def source() -> Iterator[Broker]:
    with Broker(auto_create_topics=False) as broker:
        yield broker


@pytest.fixture(scope="package")
def target() -> Iterator[Broker]:
    with Broker(auto_create_topics=False) as broker:
        yield broker

"""Fixtures of the producer's tests."""

from collections.abc import Iterator

import pytest

from tests.producer.script import ProduceBroker


@pytest.fixture
def broker() -> Iterator[ProduceBroker]:
    """A broker with the topic ``clicks`` of one partition."""
    with ProduceBroker() as broker:
        yield broker

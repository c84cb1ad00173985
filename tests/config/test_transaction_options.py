"""Options that transactions do not allow."""

from typing import Any

import pytest

from pyklient.config import ProducerConfig
from pyklient.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"transactional_id": ""}, "must not be empty"),
        ({"transactional_id": "t", "acks": 1}, "needs acks='all'"),
        ({"transactional_id": "t", "enable_idempotence": False}, "needs idempotence"),
        ({"transactional_id": "t", "retries": 0}, "retries=0"),
        ({"transactional_id": "t", "max_in_flight_requests_per_connection": 6}, "connection=6"),
        ({"transaction_timeout_ms": 0}, "transaction_timeout_ms"),
    ],
)
def test_options_that_contradict_transactions_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ProducerConfig.from_options(options)
    assert ProducerConfig.from_options({"transactional_id": "t"}).wants_idempotence

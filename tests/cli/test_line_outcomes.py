"""The number of lines that were stored or failed, counted from their deliveries."""

from typing import Any

from pyklient.cli.line_outcomes import Delivered
from pyklient.errors import BrokerConnectionError, KafkaError, KafkaTimeoutError, MessageTooLargeError


class Known:
    """A Delivery with a known outcome: stored, or failed with *error*."""

    def __init__(self, error: KafkaError | None = None) -> None:
        self._error = error

    def done(self) -> bool:
        return True

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        return self._error


class Unknown:
    """A Delivery whose outcome is not known in time."""

    def done(self) -> bool:
        return False

    def exception(self, timeout: float | None = None) -> KafkaError | None:
        raise KafkaTimeoutError("not confirmed in time")


def delivered(*deliveries: Any) -> Delivered:
    found = Delivered()
    for delivery in deliveries:
        found.add(delivery)
    found.count_others()
    return found


def test_a_line_whose_outcome_is_not_known_in_the_end_is_not_stored() -> None:
    found = delivered(Known(), Unknown(), Known())
    assert (found.sent, found.stored) == (3, 2)
    assert found.summary() == "line 2: not confirmed in time; 2 lines are stored, not confirmed: 2"


def test_the_first_failure_is_the_one_that_is_told() -> None:
    found = delivered(Known(), Known(MessageTooLargeError("too large")), Known(BrokerConnectionError("gone")))
    assert found.summary() == "line 2: too large; 1 line is stored, not confirmed: 2-3"

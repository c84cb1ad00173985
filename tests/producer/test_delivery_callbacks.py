"""Which callbacks ``send`` accepts."""

import pytest

from pyklient.kernel import Delivery
from tests.producer.script import TOPIC, ProduceBroker, producing

pytestmark = pytest.mark.both_kernels


def test_a_callback_that_nobody_would_await_is_an_error_before_anything_is_sent(
    broker: ProduceBroker,
) -> None:
    async def hear(delivery: Delivery) -> None:
        """A callback that a program passes by mistake."""

    with producing(broker) as producer:
        with pytest.raises(TypeError, match=r"^on_delivery is a coroutine function"):
            producer.send(TOPIC, b"x", on_delivery=hear)
        assert producer.send(TOPIC, b"y").result(30).offset == 0

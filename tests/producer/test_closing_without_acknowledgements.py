"""Close with ``acks=0``: brokers have handled the last records before their connections end."""

import time

import pytest

from pyklient.protocol.messages import ListOffsetsRequest, ListOffsetsResponse
from tests.net.scripted import SILENCE
from tests.producer.script import TOPIC, ProduceBroker


@pytest.mark.parametrize(("acks", "records", "asked"), [(0, 3, 1), (0, 0, 0), (1, 3, 0)])
def test_a_producer_without_acknowledgements_is_closed_when_the_broker_has_handled_its_records(
    broker: ProduceBroker, acks: int, records: int, asked: int
) -> None:
    broker.on(ListOffsetsRequest, lambda _request: ListOffsetsResponse())
    producer = broker.producer(acks=acks, linger_ms=0)
    for _ in range(records):
        producer.send(TOPIC, b"x")
    producer.close(10)
    assert len(broker.stored[0]) == records
    assert broker.count(ListOffsetsRequest) == asked
    assert not asked or isinstance(broker.requests[-1], ListOffsetsRequest)


@pytest.mark.parametrize(("timeout", "warnings"), [(0.3, ["has not answered for 0"]), (0, [])])
def test_a_broker_that_handles_no_record_delays_close_until_its_timeout_and_there_is_a_warning(
    broker: ProduceBroker, timeout: float, warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    broker.on(ListOffsetsRequest, lambda _request: SILENCE)
    producer = broker.producer(acks=0, linger_ms=0)
    producer.send(TOPIC, b"x").result(30)
    began = time.monotonic()
    producer.close(timeout)
    assert time.monotonic() - began < timeout + 20
    texts = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    found = [text for text in texts if broker.address in text]
    assert len(found) == len(warnings)
    assert all(warning in message for warning, message in zip(warnings, found, strict=True))

"""What clients log while their only broker is away for some seconds: when it began, and when it was over."""

import logging
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyklient import ConsumerConnector, ConsumerOptions, Producer
from pyklient.broker import Broker
from tests.servers.process import wait_until

_AWAY = 3.0
"""The seconds for which the broker is away: thirty attempts to connect, and six heartbeats."""


def test_a_broker_that_goes_away_and_comes_back_is_told_in_few_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyklient")
    options: ConsumerOptions = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 500,
        "auto_commit_interval_ms": 200,
        "reconnect_backoff_max_ms": 100,
    }
    values: list[bytes | None] = []
    with ExitStack() as clients:
        with Broker(data_dir=tmp_path) as broker:
            address, port = broker.bootstrap_servers, int(broker.bootstrap_servers.rpartition(":")[2])
            producer = clients.enter_context(Producer(address, reconnect_backoff_max_ms=100))
            producer.send("t", b"before").result(30)
            reader = clients.enter_context(ConsumerConnector(address, **options))
            stream = reader.stream("t")
            loop = threading.Thread(
                target=lambda: values.extend(message.value for message in stream), daemon=True
            )
            loop.start()
            wait_until(lambda: reader.metrics().commits.commits >= 1, 60, "the first commit")
        caplog.clear()
        delivery = producer.send("t", b"meanwhile")
        threading.Event().wait(_AWAY)
        with Broker(data_dir=tmp_path, port=port):
            delivery.result(60)
            wait_until(lambda: reader.metrics().consumed.records == 2, 60, "the second message")
            wait_until(lambda: _events(caplog)["fetch_outage_ended"] == 1, 60, "the end of the outage")
            told = list(caplog.records)
            reader.close()
            producer.close()
            loop.join(30)
    assert values == [b"before", b"meanwhile"]
    events = Counter(getattr(record, "event", "") for record in told if record.name != "pyklient.broker")
    assert events["broker_outage_began"] == events["broker_outage_ended"] == 2, "one for each client"
    assert events["broker_outage_continues"] == 0
    assert sum(events.values()) <= 16, [record.getMessage() for record in told]
    ended = next(record for record in told if getattr(record, "event", "") == "broker_outage_ended")
    assert ended.__dict__["broker"] == 1
    assert ended.__dict__["address"] == address
    assert _AWAY - 1 < ended.__dict__["seconds"] < _AWAY + 60
    assert ended.__dict__["attempts"] > 5


def _events(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    return Counter(getattr(record, "event", "") for record in list(caplog.records))

"""Tests the table of instruments with snapshots whose brokers were made by hand."""

from dataclasses import replace

from pyklient import Producer
from pyklient.metrics import BrokerMetrics, Durations, RequestMetrics
from pyklient.telemetry.attributes import ERROR_TYPE, QUANTILE, REQUEST
from pyklient.telemetry.instruments import PRODUCER


def test_two_entries_of_a_bootstrap_server_become_one(bootstrap: str) -> None:
    first = RequestMetrics(sent=2, latency=Durations(p50=5.0))
    second = RequestMetrics(sent=40, latency=Durations(p50=0.5))
    brokers = {
        -1: BrokerMetrics("h:9092", requests={"Metadata": first}, errors={"NOT_CONTROLLER": 1}),
        1: BrokerMetrics("h:9092", requests={"Metadata": second}, errors={"NOT_CONTROLLER": 3}),
    }
    with Producer(bootstrap) as producer:
        found = replace(producer.metrics(), brokers=brokers)
    values = {each.name: list(each.values(found)) for each in PRODUCER}
    assert [(value, at[REQUEST]) for value, at in values["pyklient.requests"]] == [(42, "Metadata")]
    assert [(value, at[ERROR_TYPE]) for value, at in values["pyklient.errors"]] == [(4, "NOT_CONTROLLER")]
    medians = [value for value, at in values["pyklient.request.duration"] if at[QUANTILE] == 0.5]
    assert medians == [0.5]

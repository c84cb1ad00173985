"""LagListener: a streaming query's place as a group's offsets."""

import json
import logging
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent

from pyklient import Admin, ConfigurationError
from pyklient.spark.lag import LagListener, kafka_offsets
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed
from tests.servers.process import wait_until
from tests.spark.streams import Stream
from tests.spark.topics import fill, number_records

pytestmark = pytest.mark.brokers("reference", "kafka-4.3.1")


def progress(name: str, *ends: object) -> QueryProgressEvent:
    """What Spark reports of a query called *name* whose sources end at *ends*."""
    source: dict[str, object] = {"description": "", "startOffset": None, "latestOffset": None}
    source |= {"numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0, "metrics": {}}
    text = {
        "id": "00000000-0000-0000-0000-000000000001",
        "runId": "00000000-0000-0000-0000-000000000002",
        "name": name,
        "timestamp": "2025-03-01T00:00:00.000Z",
        "batchId": 1,
        "batchDuration": 1,
        "durationMs": {},
        "stateOperators": [],
        "sources": [source | {"endOffset": end} for end in ends],
        "sink": {"description": "", "numOutputRows": 0, "metrics": {}},
    }
    return QueryProgressEvent.fromJson({"progress": text})


def test_the_lag_of_a_query_is_that_of_a_group(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, new_name: NewName, tmp_path: Path
) -> None:
    topic, group = new_topic(2), new_name()
    fill(bootstrap, topic, number_records(range(10), 2))
    listener = LagListener(bootstrap, group)
    spark.streams.addListener(listener)
    try:
        stream = Stream(spark, bootstrap, tmp_path / "c", subscribe=topic, startingOffsets="earliest")
        assert stream.drain() == list(range(10))
        # Spark tells its listeners in its own time.
        wait_until(lambda: committed(bootstrap, group, topic) == {0: 5, 1: 5}, 60, "offsets of the group")
        listener.close()
    finally:
        spark.streams.removeListener(listener)
    fill(bootstrap, topic, number_records(range(10, 16), 2))
    with Admin(bootstrap) as admin:
        assert sum(each.lag for each in admin.group_lag(group).values()) == 6


def test_a_listener_for_one_query_leaves_others_alone(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(1), new_name()
    listener = LagListener(bootstrap, group, query_name="mine")
    listener.onQueryProgress(progress("other", json.dumps({topic: {"0": 7}})))
    assert committed(bootstrap, group, topic) == {}
    listener.onQueryProgress(progress("mine", json.dumps({topic: {"0": 3}}), '{"logOffset": 5}', None))
    listener.close()
    assert committed(bootstrap, group, topic) == {0: 3}


@pytest.mark.brokers("reference")
def test_what_cannot_be_committed_is_logged_and_nothing_else(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = LagListener("127.0.0.1:1", new_name(), default_api_timeout_ms=200, request_timeout_ms=100)
    with caplog.at_level(logging.WARNING, "pyklient.spark"):
        nowhere.onQueryProgress(progress("q", '{"clicks": {"0": 1}}'))
        nowhere.onQueryProgress(progress("q", '{"clicks": {"0": 2}}'))
    nowhere.close()
    said = [each.getMessage() for each in caplog.records if each.name == "pyklient.spark"]
    assert len(said) == 1, "it rests after a failure"
    assert "does not show the lag for now" in said[0]


@pytest.mark.brokers("reference")
@pytest.mark.parametrize(
    ("text", "offsets"),
    [
        ('{"t": {"0": 5, "11": 0}, "u": {"1": 7}}', {("t", 0): 5, ("t", 11): 0, ("u", 1): 7}),
        (None, {}),
        ("7", {}),
        ("no json", {}),
        ('{"logOffset": 0}', {}),
        ('{"t": {"0": "5"}}', {}),
        ('{"t": {"x": 5}}', {}),
        ('{"t": {"0": true}}', {}),
    ],
)
def test_offsets_are_those_of_kafkas_sources(text: str | None, offsets: object) -> None:
    assert kafka_offsets(text) == offsets


def test_a_group_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="group_id is empty"):
        LagListener("localhost:9092", "")

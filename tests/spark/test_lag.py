"""LagListener: the offsets of a streaming query, committed to a group."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryProgressEvent, QueryStartedEvent, QueryTerminatedEvent

from pyklient import Admin, ConfigurationError, ConsumerConnector
from pyklient.spark.lag import LagListener, kafka_offsets
from tests.servers.fixtures import NewName, NewTopic, StartReference
from tests.servers.groups import assignments, committed
from tests.servers.process import wait_until
from tests.servers.topics import create_topic
from tests.spark.streams import Stream
from tests.spark.topics import fill, number_records

pytestmark = pytest.mark.brokers(min="4.3")


RUN = {"id": "00000000-0000-0000-0000-000000000001", "runId": "00000000-0000-0000-0000-000000000002"}


def progress(name: str, *ends: object) -> QueryProgressEvent:
    """The progress that Spark reports of a query called *name* whose sources end at *ends*."""
    source: dict[str, object] = {"description": "", "startOffset": None, "latestOffset": None}
    source |= {"numInputRows": 0, "inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0, "metrics": {}}
    text = RUN | {
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


@pytest.mark.brokers(real=False)
def test_what_cannot_be_committed_is_logged_and_nothing_else(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = LagListener("127.0.0.1:1", new_name(), default_api_timeout_ms=200, request_timeout_ms=100)
    with caplog.at_level(logging.WARNING, "pyklient.spark"):
        nowhere.onQueryProgress(progress("q", '{"clicks": {"0": 1}}'))
        nowhere.onQueryProgress(progress("q", '{"clicks": {"0": 2}}'))
    nowhere.close()
    said = [each.getMessage() for each in caplog.records if each.name == "pyklient.spark"]
    assert len(said) == 1, "no attempt soon after a failure"
    assert said[0].startswith("the offsets of streaming queries could not be committed to group")


@pytest.mark.brokers(real=False)
def test_what_could_not_be_committed_is_committed_at_the_end_of_the_query(
    start_reference: StartReference, new_name: NewName
) -> None:
    broker, group = start_reference(), new_name()
    topic = create_topic(broker.bootstrap_servers, new_name(), 1)
    listener = LagListener(
        broker.bootstrap_servers,
        group,
        default_api_timeout_ms=5_000,
        request_timeout_ms=2_000,
        reconnect_backoff_max_ms=100,
    )
    listener.onQueryStarted(QueryStartedEvent.fromJson(RUN | {"name": "q", "timestamp": ""}))
    broker.kill()
    listener.onQueryProgress(progress("q", json.dumps({topic: {"0": 7}})))
    broker.restart()
    listener.onQueryTerminated(
        QueryTerminatedEvent.fromJson(RUN | {"exception": None, "errorClassOnException": None})
    )
    assert committed(broker.bootstrap_servers, group, topic) == {0: 7}


@pytest.mark.brokers(real=False)
def test_a_group_that_consumers_belong_to_refuses_and_that_is_logged(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    topic, group = new_topic(1), new_name()
    with ConsumerConnector(bootstrap, group_id=group, client_id="member") as connector:
        connector.stream(topic)
        wait_until(lambda: bool(assignments(bootstrap, group)), 60, "a member of the group")
        listener = LagListener(bootstrap, group)
        with caplog.at_level(logging.WARNING, "pyklient.spark"):
            listener.onQueryProgress(progress("q", json.dumps({topic: {"0": 7}})))
        listener.close()
        assert committed(bootstrap, group, topic) == {}
    assert f"the offset of group {group} in {topic}-0 could not be committed" in caplog.text


@pytest.mark.brokers(real=False)
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


def test_an_option_that_is_misspelled_is_answered_with_the_nearest() -> None:
    options: dict[str, Any] = {"query": "clicks"}
    with pytest.raises(
        ConfigurationError, match="unknown option 'query' of LagListener; did you mean 'query_name'"
    ):
        LagListener("localhost:9092", "clicks", **options)


def test_a_group_needs_a_name() -> None:
    with pytest.raises(ConfigurationError, match="group_id is empty"):
        LagListener("localhost:9092", "")

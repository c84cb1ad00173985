"""The meaning of a query's options, without Spark."""

import pickle
from collections.abc import Mapping

import pytest

from pyklient import ConfigurationError, TopicPartition
from pyklient.spark.options import OPTIONS, Use
from pyklient.spark.sink.sink_options import SinkOptions
from pyklient.spark.source.source_options import Bound, SourceOptions

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "clicks"}
CLICKS = TopicPartition("clicks", 0)


def parse(options: Mapping[str, str] | None = None, use: Use = Use.BATCH) -> SourceOptions:
    return SourceOptions.parse({**NEEDED, **(options or {})}, use)


def test_a_batch_is_from_the_earliest_offset_to_the_latest() -> None:
    options = parse()
    assert options.subscription.topics == ("clicks",)
    assert (options.start, options.end) == (Bound("startingOffsets", -2), Bound("endingOffsets", -1))
    assert options.fail_on_data_loss
    assert not options.headers


def test_a_stream_begins_at_the_latest_offset() -> None:
    assert parse(use=Use.STREAM).start == Bound("startingOffsets", -1)


def test_names_of_options_have_no_case() -> None:
    options = parse({"INCLUDEHEADERS": "True", "minpartitions": "7"})
    assert options.headers
    assert options.min_partitions == 7


def test_options_of_kafka_go_to_the_client_whatever_javas_client_makes_of_them() -> None:
    config = parse(
        {
            "kafka.isolation.level": "read_committed",
            "kafka.fetch.max.wait.ms": "100",
            "kafka.group.id": "mine",
            "kafka.max.poll.records": "500",
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
            'username="ada" password="sec\\"ret";',
        }
    ).config
    assert config.isolation_level == "read_committed"
    assert config.fetch_max_wait_ms == 100
    assert config.group_id is None
    assert (config.sasl_username, config.sasl_password) == ("ada", 'sec"ret')


def test_options_travel_to_the_workers_and_show_no_password() -> None:
    options = parse(
        {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.username": "ada",
            "kafka.sasl.password": "hunter2",
        }
    )
    assert "hunter2" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_time_wins_over_times_and_times_over_offsets() -> None:
    given = {"startingOffsets": "earliest", "startingOffsetsByTimestamp": '{"clicks": {"0": 5}}'}
    assert parse(given).start == Bound("startingOffsetsByTimestamp", {CLICKS: 5}, timed=True, must_match=True)
    assert parse(given | {"startingTimestamp": "7"}).start == Bound(
        "startingTimestamp", 7, timed=True, must_match=True
    )
    relaxed = parse(
        {"startingTimestamp": "7", "startingOffsetsByTimestampStrategy": "Latest", "endingTimestamp": "9"}
    )
    assert not relaxed.start.must_match
    assert not relaxed.end.must_match


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            {"subscribe": ""},
            "option subscribe has the wrong value '': expected the name of a topic",
        ),
        ({"subscribe": " , "}, "subscribe"),
        ({"subscribePattern": "c.*"}, "subscribe, subscribePattern are set"),
        ({"assign": "clicks"}, "option assign has the wrong value 'clicks': expected JSON such as"),
        ({"kafka.bootstrap.servers": " "}, r"kafka\.bootstrap\.servers is missing"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "nothing is committed"),
        ({"kafka.key.deserializer": "x"}, "keys are bytes"),
        ({"kafka.value.deserializer": "x"}, "values are bytes"),
        ({"kafka.interceptor.classes": "x"}, "cannot be set"),
        (
            {"kafka.fetch.mx.wait.ms": "5"},
            "'kafka.fetch.mx.wait.ms' is unknown; did you mean 'kafka.fetch.max.wait.ms'",
        ),
        ({"kafka.sasl.jaas.config": "KerberosLoginModule required;"}, "user and password"),
        ({"kafka.ssl.truststore.type": "JKS"}, "PEM"),
        ({"startingOffset": "earliest"}, "unknown.*did you mean 'startingOffsets'"),
        ({"fetch.max.bytes": "5"}, r"write 'kafka\.fetch\.max\.bytes'"),
        ({"path": "clicks"}, "no path"),
        ({"startingOffsets": "latest"}, "cannot be latest"),
        ({"startingOffsets": '{"clicks": {"0": -1}}'}, "cannot be latest"),
        ({"startingOffsets": '{"clicks": {"0": -3}}'}, "has the wrong value"),
        ({"startingOffsets": '{"clicks": {"zero": 1}}'}, "has the wrong value"),
        ({"startingOffsets": '{"clicks": [1]}'}, "has the wrong value"),
        ({"startingOffsets": "{"}, "has the wrong value"),
        ({"endingOffsets": "earliest"}, "cannot be earliest"),
        ({"endingOffsets": '{"clicks": {"0": -2}}'}, "cannot be earliest"),
        (
            {"startingOffsets": '{"clicks": {"0": 9}}', "endingOffsets": '{"clicks": {"0": 5}}'},
            "endingOffsets of clicks-0 is offset 5, which is before offset 9 of startingOffsets",
        ),
        ({"startingTimestamp": "yesterday"}, "a whole number"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "'error' or 'latest'"),
        ({"minPartitions": "0"}, "a whole number of 1 or more"),
        ({"maxRecordsPerPartition": "-1"}, "a whole number of 1 or more"),
        ({"failOnDataLoss": "no"}, "'true' or 'false'"),
        ({"subscribePattern": "(", "subscribe": "a"}, "a regular expression"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        parse(options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kafka.fetch.max.bytes": "much"}, "^kafka.fetch.max.bytes takes a whole number, not 'much'"),
        (
            {"kafka.security.protocol": "SASL_SSL"},
            "^kafka.security.protocol=SASL_SSL needs kafka.sasl.username and kafka.sasl.password",
        ),
        (
            {"kafka.request.timeout.ms": "1"},
            "^kafka.request.timeout.ms=1 must be above kafka.fetch.max.wait.ms=500",
        ),
        ({"kafka.ssl.ca.location": "/ca"}, "^unknown option 'kafka.ssl.ca.location'"),
        ({"kafka.sasl.jaas.config": "x"}, "^kafka.sasl.jaas.config has no user"),
        ({"kafkaConsumer.pollTimeoutMs": "9999999999"}, "^kafkaConsumer.pollTimeoutMs=9999999999 is out of"),
        ({"kafka.consumer.timeout.ms": "9999999999"}, "^kafka.consumer.timeout.ms=9999999999 is out of"),
    ],
)
def test_an_error_of_the_client_names_the_option_as_it_was_given(
    options: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        parse(options)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kafka.acks": "7"}, "^kafka.acks='7' is not one of"),
        (
            {"kafka.delivery.timeout.ms": "1"},
            r"^kafka.delivery.timeout.ms=1 must be at least kafka.linger.ms \+ kafka.request.timeout.ms",
        ),
        ({"kafka.partitioner": "x"}, "^option kafka.partitioner cannot be set for a write"),
    ],
)
def test_an_error_of_the_producer_names_the_option_as_it_was_given(
    options: dict[str, str], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        SinkOptions.parse({"kafka.bootstrap.servers": "localhost:9092", **options})


def test_what_a_stream_says_of_its_query_is_no_option_of_the_sink() -> None:
    about_the_query = {"queryName": "daily", "checkpointLocation": "/tmp/here"}
    options = SinkOptions.parse({"kafka.bootstrap.servers": "localhost:9092", **about_the_query})
    assert options.topic is None


def test_nothing_to_read_is_an_error() -> None:
    with pytest.raises(
        ConfigurationError, match="exactly one of the options assign, subscribe, subscribePattern"
    ):
        SourceOptions.parse({"kafka.bootstrap.servers": "localhost:9092"}, Use.BATCH)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} is for batch queries"):
        parse({name: "1"}, Use.STREAM)


def test_limits_of_a_stream_are_checked_and_those_of_batches_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ConfigurationError, match="minOffsetsPerTrigger=5 is above maxOffsetsPerTrigger=4"):
        parse({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, Use.STREAM)
    assert parse({"maxTriggerDelay": "2m"}, Use.STREAM).max_trigger_delay_ms == 120_000
    parse({"maxOffsetsPerTrigger": "4"})
    assert "maxOffsetsPerTrigger has no effect on this query: it is only for stream queries" in caplog.text


def test_every_option_of_the_table_is_taken_by_somebody() -> None:
    assert len({option.name.lower() for option in OPTIONS}) == len(OPTIONS)
    assert all(option.uses and option.meaning for option in OPTIONS)

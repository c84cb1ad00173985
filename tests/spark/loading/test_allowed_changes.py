"""load(): the topics, the cluster and the columns of a directory stay the same, unless a change is
allowed."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyklient import ConfigurationError, KafkaError, TopicPartition
from pyklient.broker import Broker
from pyklient.cli.commands.load import AS_TYPED
from pyklient.spark import load
from pyklient.spark.loading.allowed_changes import AllowedChanges
from pyklient.spark.loading.data_set import Manifest
from pyklient.spark.option_names import LOAD_NAMES, rename_options
from pyklient.spark.source.data_loss import DataLoss
from tests.servers.fixtures import NewTopic
from tests.spark.topics import fill, number_records

pytestmark = pytest.mark.brokers(real=False)


def before(**facts: Any) -> Manifest:
    known: dict[str, Any] = {
        "end": {"clicks": {"0": 5}},
        "cluster_id": "here",
        "columns": {"value": "binary", "offset": "bigint"},
    }
    return Manifest(0, "token", 5, [], {"clicks": "00ff"}, {"clicks": {"0": 0}}, **{**known, **facts})


def test_another_topic_is_not_published_beside_the_first_unless_that_is_asked_for(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    clicks, views = new_topic(), new_topic()
    for topic in (clicks, views):
        fill(bootstrap, topic, number_records(range(5)))
    load(spark, bootstrap, clicks, tmp_path)
    said = f"has records of topic {clicks}, but this load reads only topic {views}"
    with pytest.raises(ConfigurationError, match=f"{said}.*allow=.'topics'"):
        load(spark, bootstrap, views, tmp_path)
    assert spark.read.parquet(str(tmp_path)).count() == 5
    assert load(spark, bootstrap, views, tmp_path, allow=["topics"]).rows == 5
    assert load(spark, bootstrap, [clicks, views], tmp_path).number is None
    with pytest.raises(TypeError, match=re.escape("allow takes a list of changes, such as ['topics']")):
        load(spark, bootstrap, clicks, tmp_path, allow="topics")  # type: ignore[arg-type]  # what is tried
    with pytest.raises(
        ConfigurationError, match="allow contains 'topic', which is not one of 'cluster', 'columns', 'topics'"
    ):
        load(spark, bootstrap, clicks, tmp_path, allow=["topic"])  # type: ignore[list-item]  # what is tried


def test_a_column_of_another_type_is_not_published_unless_that_is_asked_for(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()

    def number(kind: str, name: str = "number") -> Any:
        def parsed(rows: DataFrame) -> DataFrame:
            return rows.selectExpr(f"cast(cast(value as string) as {kind}) {name}")

        return parsed

    fill(bootstrap, topic, number_records(range(5)))
    load(spark, bootstrap, topic, tmp_path, transform=number("int"))
    fill(bootstrap, topic, number_records(range(5, 10)))
    for transform, said in (
        (number("string"), "column number is string, but was int"),
        (number("int", "n"), re.escape("column n (int) is new; column number (int) is missing")),
    ):
        with pytest.raises(ConfigurationError, match=f"{said}.*allow=.'columns'"):
            load(spark, bootstrap, topic, tmp_path, transform=transform)
    assert spark.read.parquet(str(tmp_path)).count() == 5
    assert load(spark, bootstrap, topic, tmp_path, transform=number("int")).rows == 5
    fill(bootstrap, topic, number_records(range(10, 15)))
    done = load(spark, bootstrap, topic, tmp_path, transform=number("string"), allow=["columns"])
    assert done.number == 2
    stored = json.loads((tmp_path / "load=000000000002" / "_offsets.json").read_text())
    assert stored["columns"] == {"number": "string"}


def test_another_cluster_is_not_taken_for_the_first_unless_that_is_asked_for(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(5)))
    load(spark, bootstrap, topic, tmp_path)
    with Broker() as other:
        other.create_topic(topic)
        fill(other.bootstrap_servers, topic, number_records(range(10, 13)))
        with pytest.raises(ConfigurationError, match=r"holds loads from cluster .*allow=.'cluster'"):
            load(spark, other.bootstrap_servers, topic, tmp_path)
        assert load(spark, other.bootstrap_servers, topic, tmp_path, allow=["cluster"]).rows == 3
        assert load(spark, other.bootstrap_servers, topic, tmp_path).number is None
    rows = spark.read.parquet(str(tmp_path)).select("value").collect()
    assert sorted(int(row.value) for row in rows) == [0, 1, 2, 3, 4, 10, 11, 12]


def test_topics_may_be_added_and_left_out_where_one_was_loaded_before() -> None:
    changes = AllowedChanges("file:/x", before(end={"clicks": {"0": 5}, "views": {"0": 1}}), ())
    for topics in ({"clicks"}, {"views"}, {"clicks", "orders"}, set[str]()):
        assert changes.check_source("here", topics) == changes.before
    with pytest.raises(
        ConfigurationError, match="records of topics clicks, views, but this load reads only topic orders"
    ):
        changes.check_source("here", {"orders"})


def test_nothing_is_compared_that_is_not_known() -> None:
    old = AllowedChanges("file:/x", before(cluster_id=None, columns=None), ())
    assert old.check_source("there", {"clicks"}) == old.before
    old.check_columns({"any": "thing"})
    assert AllowedChanges("file:/x", None, ()).check_source("there", {"orders"}) is None
    assert AllowedChanges("file:/x", before(), ()).check_source(None, {"clicks"}) == before()


def test_a_file_of_offsets_without_cluster_and_columns_is_read() -> None:
    text = json.loads(before().to_json())
    del text["cluster_id"], text["columns"]
    assert Manifest.from_json(json.dumps(text)) == before(cluster_id=None, columns=None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"fetch_max_bytes": "much"}, "^fetch_max_bytes takes a whole number, not 'much'"),
        (
            {"security_protocol": "SASL_SSL"},
            "^security_protocol=SASL_SSL needs sasl_username and sasl_password",
        ),
        ({"consumer_timeout_ms": 2**40}, "^consumer_timeout_ms=1099511627776 is out of range"),
        (
            {"min_partitions": 0},
            "option min_partitions has the wrong value '0': expected a whole number of 1 or more",
        ),
        ({"fail_on_data_loss": "maybe"}, "option fail_on_data_loss has the wrong value 'maybe'"),
        ({"bootstrap_servers": "here:99999"}, "^bootstrap_servers: the port of 'here:99999'"),
        ({"start": {TopicPartition("clicks", 0): -5}}, "start has -5 for partition clicks-0: pass an"),
    ],
)
def test_errors_of_load_name_its_own_parameters(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"bootstrap_servers": "localhost:9", "topics": "clicks", **given}
    with pytest.raises(ConfigurationError, match=said):
        load(object(), path=tmp_path, **arguments)  # type: ignore[arg-type]  # nothing asks for the session


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            lambda: AllowedChanges("file:/x", before(), ()).check_source("here", {"orders"}),
            "or give --allow topics",
        ),
        (
            lambda: AllowedChanges("file:/x", before(), ()).check_source("there", {"clicks"}),
            "or give --allow cluster",
        ),
        (lambda: AllowedChanges("file:/x", before(), ()).check_columns({}), "or give --allow columns"),
        (lambda: DataLoss(True).report("all is gone"), "Give --go-on to continue with the records"),
    ],
)
def test_errors_of_the_command_name_its_own_options(error: Callable[[], object], said: str) -> None:
    with pytest.raises(KafkaError, match=said), rename_options(AS_TYPED), rename_options(LOAD_NAMES):
        error()


def test_an_offset_for_a_partition_that_is_not_there_is_an_error_that_names_start(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    with pytest.raises(ConfigurationError, match=f"^start must name each .* no offset for {topic}-0"):
        load(spark, bootstrap, topic, tmp_path, start={})

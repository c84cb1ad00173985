"""load() with unusual names of directories and unusual patterns of topics."""

import os
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyklient.spark import load
from tests.servers.fixtures import NewTopic
from tests.spark.topics import fill, number_records

pytestmark = pytest.mark.brokers(real=False)


def test_rows_are_beside_their_offsets_whatever_the_directory_is_called(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, path = new_topic(), tmp_path / "my clicks, späte; 100%25 #1 [a]{b}*?=c"
    for number in range(2):
        fill(bootstrap, topic, number_records(range(10)))
        done = load(spark, bootstrap, topic, path)
        assert done.rows == 10
        assert done.path == f"file://{path}/load={number:012}"
        assert len(list((path / f"load={number:012}").rglob("*.parquet"))) == 1
    assert os.listdir(tmp_path) == [path.name]


def test_a_pattern_of_topics_keeps_its_flags(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(10)))
    pattern = re.compile(f"{topic.upper()}  # all of it", re.IGNORECASE | re.VERBOSE)
    assert load(spark, bootstrap, pattern, tmp_path / "clicks").rows == 10
    with pytest.raises(TypeError, match="the pattern in topics must be of str"):
        load(spark, bootstrap, re.compile(b"clicks"), tmp_path / "clicks")  # type: ignore[arg-type]  # wrong

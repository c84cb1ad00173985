"""``pyklient load``: the command, in this process and in a separate one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.servers.fixtures import NewTopic
from tests.servers.java import spark_jvm
from tests.spark.topics import fill, number_records

ROOT = Path(__file__).parents[3]

pytestmark = pytest.mark.brokers(real=False)


def pyklient(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "pyklient", *arguments],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_command_loads_what_is_new_and_says_what_it_was(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic(2)
    fill(bootstrap, topic, number_records(range(10), 2))
    conf = ["spark.ui.enabled=false", f"spark.driver.extraJavaOptions={spark_jvm()}"]
    settings = [part for each in conf for part in ("--conf", each)]
    expression = "cast(cast(value as string) as int) number"

    done = pyklient(
        "load",
        *("-b", bootstrap, "--master", "local[1]", *settings, "--json", "--max-records", "6"),
        *("--select", expression, "--select", "partition % 2 odd", "--partition-by", "odd"),
        *(topic, str(tmp_path / "numbers")),
    )

    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["load"], result["rows"]) == (0, 6)
    assert result["offsets"] == {topic: {"0": {"start": 0, "end": 3}, "1": {"start": 0, "end": 3}}}
    rows = spark.read.parquet(result["path"]).select("number", "odd").collect()
    assert sorted(map(tuple, rows)) == [(each, each % 2) for each in range(6)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["clicks"],
            "the only argument is 'clicks': pass one or more topics, and then PATH as the last argument",
        ),
        (["--start", "soon", "clicks", "/tmp/x"], "'soon' is not a time such as 2025-03-01"),
        (
            ["--rewind-to", "a:b:c", "t", "/tmp/x"],
            "'a:b:c' is neither a time such as 2025-03-01T00:00:00+00:00",
        ),
        (
            ["--rewind-to", "t:0:1", "--rewind-to", "2025-03-01", "t", "/tmp/x"],
            "takes one time, or the offsets",
        ),
        (["--conf", "spark", "clicks", "/tmp/x"], "'spark' is not NAME=VALUE"),
        (["a b", "/tmp/x"], "'a b' is not a valid name of a topic"),
    ],
)
def test_what_is_called_wrongly_is_said_before_spark_starts(arguments: list[str], message: str) -> None:
    done = pyklient("load", *arguments)
    assert done.returncode == 2
    assert message in done.stderr


def test_without_spark_the_command_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['pyspark'] = None; from pyklient.__main__ import main; sys.exit(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "load", "clicks", "/tmp/x"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "install the extra `spark`" in done.stderr


def test_without_java_it_is_said_what_spark_needs() -> None:
    done = pyklient("load", "clicks", "/tmp/x", JAVA_HOME="/nowhere")
    assert done.returncode == 1
    assert "set JAVA_HOME or PATH to Java 17 or later" in done.stderr.splitlines()[-1]

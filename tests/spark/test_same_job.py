"""Jobs written for Spark's own Kafka connector give the same results with pyklient, on the oldest PySpark."""

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.servers.kafka import KraftCluster
from tests.servers.maven import connector_libs
from tests.servers.old_pyspark import VERSION, environment
from tests.spark.same_job.jobs import ERRORS, JOBS, QUICK
from tests.spark.same_job.writes import REFUSED, WRITES
from tools.repository import ROOT

pytestmark = pytest.mark.java

_TIMEOUT = 900


def _params(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.long]) for name in names]


@pytest.fixture(scope="session")
def results(
    request: pytest.FixtureRequest, newest_kafka: KraftCluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """The results, with both formats, of the jobs whose tests run."""
    bootstrap = newest_kafka.bootstrap_servers
    output = tmp_path_factory.mktemp("same-job") / "results.json"
    jars = ",".join(str(jar) for jar in sorted(connector_libs().glob("*.jar")))
    of_jobs = [item for item in request.session.items if item.path == Path(__file__)]
    names = [each.callspec.params["name"] for each in of_jobs if hasattr(each, "callspec")]
    arguments = [bootstrap, f"job-x{uuid.uuid4().hex[:8]}", jars, json.dumps(names), str(output)]
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.same_job", *arguments],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return found


@pytest.mark.timeout(_TIMEOUT + 60)
def test_it_ran_on_the_oldest_pyspark(results: dict[str, Any]) -> None:
    assert results["version"] == VERSION
    assert len(JOBS) > 20
    assert {*JOBS, *WRITES, *ERRORS, *REFUSED} >= QUICK


@pytest.mark.timeout(_TIMEOUT + 60)
def test_a_limit_that_the_oldest_pyspark_cannot_keep_is_refused(results: dict[str, Any]) -> None:
    assert "maxOffsetsPerTrigger needs PySpark 4.2 or later, but this is 4.0.0" in results["limit"]


@pytest.mark.timeout(_TIMEOUT + 60)
@pytest.mark.parametrize("name", _params([*JOBS, *WRITES]))
def test_a_job_gives_the_same_rows(results: dict[str, Any], name: str) -> None:
    kafka, pyklient = results["jobs"][name]["kafka"], results["jobs"][name]["pyklient"]
    assert "failed" not in kafka, kafka["failed"]
    assert "failed" not in pyklient, pyklient["failed"]
    assert pyklient["schema"] == kafka["schema"]
    assert pyklient["rows"] == kafka["rows"]
    assert kafka["rows"] or name in (
        "an empty topic",
        "a time that nothing has reached",
        "a stream from its end",
        "no rows written",
    )


@pytest.mark.timeout(_TIMEOUT + 60)
@pytest.mark.parametrize("name", _params(ERRORS | REFUSED))
def test_a_mistake_is_an_error_of_the_same_meaning(results: dict[str, Any], name: str) -> None:
    _, pattern = (ERRORS | REFUSED)[name]
    for word, error in results["errors"][name].items():
        assert error is not None, f"{word}: no error"
        assert re.search(pattern, error), f"{word}: {error}"

"""A job on a cluster whose nodes have Spark and no pyklient, which comes with the job in an archive."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyklient import kernel, read
from tests.servers.fixtures import NewName
from tests.servers.programs import program
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic
from tests.spark.cluster.environment import pack
from tests.spark.cluster.standalone import StandaloneCluster
from tests.spark.topics import fill, number_records

_ROOT = Path(__file__).parents[3]
_COUNT = 1000
_MANY = 40_000
"""A number of rows so large that some of them are sent before a task has all of them."""

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory with the nodes' files."""
    program("java")
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def standalone(home: Path) -> Iterator[StandaloneCluster]:
    reaper = Reaper()
    cluster = StandaloneCluster(home / "standalone", reaper)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        reaper.close()


@pytest.fixture(scope="module")
def archive(home: Path) -> Path:
    """The environment that is sent to the nodes: the same for all jobs."""
    return pack(home)


@pytest.fixture
def given(reference_broker: ReferenceBroker, new_name: NewName, tmp_path: Path) -> dict[str, str]:
    """The arguments of a job: an empty topic to read, and one to write."""
    bootstrap, name = reference_broker.bootstrap_servers, new_name()
    source, copy = (create_topic(bootstrap, topic, 2) for topic in (name, f"{name}-copy"))
    return {"bootstrap": bootstrap, "source": source, "copy": copy, "home": str(tmp_path)}


def run(cluster: StandaloneCluster, archive: Path, given: dict[str, str], job: str = "job") -> dict[str, Any]:
    """Run the *job* on *cluster*. Return what it has printed."""
    arguments = [cluster.master, str(archive), json.dumps(given)]
    ran = subprocess.run(
        [sys.executable, "-m", f"tests.spark.cluster.{job}", *arguments],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env=os.environ
        | {
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "PYSPARK_PYTHON": "./environment/bin/python",
            "SPARK_LOCAL_IP": "127.0.0.1",
        },
    )
    assert ran.returncode == 0, f"{ran.stderr[-8000:]}\n{cluster.tail()}"
    told: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return told


def test_a_job_brings_pyklient_to_the_nodes_of_a_cluster(
    standalone: StandaloneCluster, archive: Path, given: dict[str, str]
) -> None:
    fill(given["bootstrap"], given["source"], number_records(range(_COUNT), 2))
    told = run(standalone, archive, given)
    assert told["numbers"] == list(range(_COUNT))
    sent = read(given["bootstrap"], given["copy"])
    assert sorted(int(each.value or b"-1") for each in sent) == list(range(_COUNT))
    assert len(told["nodes"]) == 2
    for directory, module, name_of_kernel in told["nodes"]:
        assert module.startswith(f"{directory}/environment/")
        assert name_of_kernel == kernel.name


def test_a_task_that_is_run_twice_doubles_nothing_in_a_load_and_what_it_sends_can_be_told_apart(
    standalone: StandaloneCluster, archive: Path, given: dict[str, str]
) -> None:
    fill(given["bootstrap"], given["source"], number_records(range(_MANY), 2))
    told = run(standalone, archive, given, "speculation")
    assert told["loaded"] == list(range(_MANY))
    sent = list(read(given["bootstrap"], given["copy"]))
    assert len(sent) > _MANY, "Spark has run no task twice, and the test shows nothing"
    rows = {tuple(sorted(each.headers)): int(each.value or b"-1") for each in sent}
    assert sorted(rows.values()) == list(range(_MANY))

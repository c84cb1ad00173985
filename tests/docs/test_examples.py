"""Every example is a program that succeeds."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient import Admin, TopicPartition
from pyklient.broker import Broker
from tools.repository import ROOT

_EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def _run(example: Path, broker: Broker, directory: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(example), broker.bootstrap_servers],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_so(example: Path, broker: Broker, tmp_path: Path) -> None:
    done = _run(example, broker, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1].startswith("ok:")


def test_the_jobs_of_the_workers_are_on_all_partitions(broker: Broker, tmp_path: Path) -> None:
    _run(ROOT / "examples" / "worker_group.py", broker, tmp_path)
    with Admin(broker.bootstrap_servers) as admin:
        for topic in (each for each in admin.topics() if each.startswith("jobs-")):
            partitions = admin.describe_topic(topic).partitions
            ends = admin.end_offsets(TopicPartition(topic, each.partition) for each in partitions)
            assert min(ends.values()) > 0


def test_there_are_examples() -> None:
    assert len(_EXAMPLES) >= 5

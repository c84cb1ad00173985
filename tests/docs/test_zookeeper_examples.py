"""Every example with ZooKeeper is a program that succeeds on a real broker."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tools.repository import ROOT

_EXAMPLES = sorted((ROOT / "examples" / "zookeeper").glob("*.py"))


@pytest.mark.java
@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_with_zookeeper_runs_and_says_so(
    example: Path, zookeeper_kafka: ZooKeeperKafka, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, str(example), zookeeper_kafka.zookeeper_connect],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.splitlines()[-1].startswith("ok:")

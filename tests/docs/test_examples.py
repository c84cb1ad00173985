"""Every example is a program that ends well."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.broker import Broker
from tools.repository import ROOT

_EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.mark.parametrize("example", _EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_so(example: Path, broker: Broker, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example), broker.bootstrap_servers],
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


def test_there_are_examples() -> None:
    assert len(_EXAMPLES) >= 5

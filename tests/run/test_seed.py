"""One seed repeats all random numbers in a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.run.seed import VARIABLE, dice
from tools.repository import ROOT

_TESTS = """
import random
from hypothesis import given, settings, strategies
from tests.run.seed import dice

def test_one():
    print("one", random.random(), dice("salt").random())

@settings(max_examples=5, database=None)
@given(strategies.integers())
def test_two(number):
    print("two", number)

def test_three():
    print("three", random.random())
    raise SystemError
"""


def run(directory: Path, *arguments: str) -> list[str]:
    (directory / "conftest.py").write_text("from tests.conftest import *\n")
    (directory / "test_random.py").write_text(_TESTS)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n  long\n  java\n")
    kept = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "PYTEST_ADDOPTS")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-s", *arguments],
        cwd=directory,
        env=kept | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


def drawn(lines: list[str]) -> list[str]:
    return [line.lstrip(".") for line in lines if line.lstrip(".").startswith(("one", "two", "three"))]


def test_a_seed_repeats_random_numbers_and_examples_and_a_failure_tells_it(tmp_path: Path) -> None:
    first = run(tmp_path, "--seed", "5")
    assert len(drawn(first)) >= 7
    assert "to repeat it: --seed 5" in first
    assert drawn(run(tmp_path, "--seed", "5", "-p", "no:xdist")) == drawn(first)
    assert drawn(run(tmp_path, "--seed", "6")) != drawn(first)


def test_a_test_draws_the_same_numbers_whatever_has_run_before(tmp_path: Path) -> None:
    [alone] = drawn(run(tmp_path, "--seed", "5", "-k", "three"))
    assert alone in drawn(run(tmp_path, "--seed", "5"))


def test_dice_follow_from_the_seed_and_their_salt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    first = dice("a", 1).random()
    assert dice("a", 1).random() == first
    assert dice("a", 2).random() != first
    monkeypatch.setenv(VARIABLE, "2")
    assert dice("a", 1).random() != first

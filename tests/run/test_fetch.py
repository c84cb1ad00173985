"""Downloads of the tests are complete before the first test, or the run says what to do."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.fetch import fetch, things
from tests.servers.maven import VERSIONS
from tools.repository import ROOT


def without_java(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with a PATH on which there is no Java, and a cache in which there is nothing."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=os.environ | {"PATH": str(directory), "XDG_CACHE_HOME": str(directory)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_without_java_fetching_ends_and_says_what_to_install(tmp_path: Path) -> None:
    ended = without_java(tmp_path, "tests.servers.fetch")
    assert ended.returncode == 1
    assert "java is not on the PATH" in ended.stderr
    assert "apt-get install" in ended.stderr
    assert "make test-fast" in ended.stderr


def test_without_java_no_test_begins_and_the_way_out_is_said(tmp_path: Path) -> None:
    wanted = ["tests/system/test_misuse.py", "-q", "--broker", "kafka-4.3.1", "-p", "no:cacheprovider"]
    ended = without_java(tmp_path, "pytest", *wanted)
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert "java is not on the PATH" in ended.stderr
    assert "-m 'not java'" in ended.stderr
    assert "passed" not in ended.stdout
    assert "error" not in ended.stdout


def test_what_is_fetched_is_told_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java"
    java.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    said: list[str] = []
    fetch({"one": lambda: Path("/a"), "two": lambda: Path("/b")}, said.append)
    assert [line.partition(" (")[0] for line in said] == [
        "1/2 one …",
        "1/2 one: /a",
        "2/2 two …",
        "2/2 two: /b",
    ]


def test_everything_is_fetched_at_once() -> None:
    names = things().keys()
    assert {f"Kafka {version}" for version in VERSIONS} < names
    assert {"Spark's connector", "PySpark 4.0.0", "classes of Kafka 4.3.1", "classes of Spark"} < names

"""A test fails because of its own threads, and not because of those that other tests have left."""

import os
import subprocess
import sys
from pathlib import Path

from tools.repository import ROOT

_TESTS = """
import threading

LEFT = threading.Event()

def fail(go_on):
    go_on.wait(30)
    raise ValueError("in a thread")

def test_that_leaves_a_thread():
    global left
    left = threading.Thread(target=fail, args=(LEFT,))
    left.start()

def test_of_others():
    LEFT.set()
    left.join(30)

def test_with_a_thread_that_fails():
    own = threading.Thread(target=fail, args=(LEFT,))
    own.start()
    own.join(30)
"""


def test_only_the_test_that_has_started_a_thread_fails_because_of_it(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("from tests.conftest import *\n")
    (tmp_path / "test_threads.py").write_text(_TESTS)
    options = ["-c", str(ROOT / "pyproject.toml"), "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, str(tmp_path)],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
        | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "1 failed, 2 passed" in ran.stdout, ran.stdout
    assert "FAILED test_threads.py::test_with_a_thread_that_fails" in ran.stdout, ran.stdout

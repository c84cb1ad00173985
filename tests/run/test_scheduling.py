"""A run with two workers, each a process: which tests each of them ran, and how long its servers ran."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from tools.repository import ROOT

_CONFTEST = """
import json, os, time
from pathlib import Path
import pytest
from tests.conftest import *
from tests.run import groups
from tests.servers import kinds

LOG = Path({log!r})

def note(*words):
    with LOG.open("a") as log:
        log.write(json.dumps([os.environ.get("PYTEST_XDIST_WORKER"), *words]) + chr(10))

class Fake:
    def __init__(self, directory, reaper):
        self.name = self.bootstrap_servers = directory.name.rsplit("-", 1)[0]
    def start(self):
        note("start", self.name)
    def stop(self):
        if self.name:
            note("stop", self.name)
        self.name = ""
    def logs(self):
        return {{}}

for name in ("one", "two", "three"):
    kinds.KINDS[name] = kinds.Kind(name, (1,), Fake)
groups._SECONDS.update(one=3.0, two=2.0, three=1.0)

@pytest.fixture
def server(request, servers):
    return servers.get(request.param).bootstrap_servers

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    note("test", item.nodeid)
"""

_TESTS = """
import pytest

ONE, TWO, THREE = (
    pytest.param(name, marks=pytest.mark.uses(name)) for name in ("one", "two", "three")
)

@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("server", [ONE, TWO, THREE], indirect=True)
def test_with(server, number):
    assert server in ("one", "two", "three")

@pytest.mark.parametrize("number", range(3))
def test_without(number):
    pass
"""


def run(directory: Path, *arguments: str) -> list[list[str]]:
    """Return what happened, in the order in which it was written: the worker, "start", "stop" or "test", and
    the name."""
    log = directory / "log"
    (directory / "conftest.py").write_text(_CONFTEST.format(log=str(log)))
    (directory / "pytest.ini").write_text("[pytest]\ntimeout = 60\nmarkers =\n  uses\n  java\n  long\n")
    for name in ("test_a.py", "test_b.py"):
        (directory / name).write_text(_TESTS)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=directory,
        env=kept | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize("arguments", [["-n", "2"], ["-p", "no:xdist"]], ids=" ".join)
def test_a_server_is_started_once_and_serves_its_tests_and_no_longer(
    tmp_path: Path, arguments: list[str]
) -> None:
    events = run(tmp_path, *arguments)
    lives: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for worker, kind, name in events:
        server = name if kind != "test" else name.partition("[")[2].split("-")[0]
        if server in ("one", "two", "three"):
            lives[server].append((worker, kind))
    assert sorted(lives) == ["one", "three", "two"]
    for happened in lives.values():
        assert len({worker for worker, _ in happened}) == 1
        assert [kind for _, kind in happened] == ["start", *["test"] * 6, "stop"]
    tests = [name for _, kind, name in events if kind == "test"]
    assert len(tests) == len(set(tests)) == 24


def test_the_next_server_starts_while_the_one_before_is_used(tmp_path: Path) -> None:
    events = [tuple(event) for event in run(tmp_path, "-n", "2") if event[1] != "test"]
    [second] = {worker for worker, kind, name in events if name == "two"}
    order = [(kind, name) for worker, kind, name in events if worker == second]
    assert order.index(("start", "three")) < order.index(("stop", "two"))

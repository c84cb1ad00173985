"""Runs tests in a copy of the tree and returns their outcome."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from tools.mutants.copies import BrokenMutant, TreeCopy
from tools.mutants.mutant import Mutant

__all__ = ["Outcome", "Result", "end_all", "examine", "run_tests"]

_TEST_SECONDS = 60
"""The time after which a single test counts as failed."""
_RUN_SECONDS = 180
"""The time after which the tests of one mutant are killed."""
_FAILED = 1
_MISTAKES_OF_THE_MUTANT = (
    "NameError",
    "UnboundLocalError",
    "ImportError",
    "ModuleNotFoundError",
    "SyntaxError",
)


class Outcome(Enum):
    """The outcome of the tests of a mutant. Only NOTICED is good."""

    NOTICED = "noticed"
    SURVIVED = "SURVIVED"
    BROKEN = "BROKEN"
    """The tests did not run, or failed for a reason that has nothing to do with the mistake."""
    ENDLESS = "ENDLESS"
    """The tests did not end in time, nor fail."""


class Result(NamedTuple):
    """*detail* is the first test that failed, or what went wrong."""

    outcome: Outcome
    detail: str
    seconds: float


class _Failures(NamedTuple):
    """Node ids and messages of tests that failed in their own body, and of other errors."""

    failed: list[tuple[str, str]]
    errors: list[tuple[str, str]]


_running: set[subprocess.Popen[str]] = set()
_ending = threading.Event()


def end_all() -> None:
    """Kill all tests that run, in all threads, and let no others begin."""
    _ending.set()
    for process in list(_running):
        _end(process)


def examine(copy: TreeCopy, mutant: Mutant, build_tools: Path | None) -> Result:
    """Apply *mutant* to *copy*, run its tests there, and restore the copy."""
    began = time.monotonic()
    try:
        copy.apply(mutant, build_tools)
        result = run_tests(copy, mutant.tests, _RUN_SECONDS, stop_early=True)
    except BrokenMutant as error:
        result = Result(Outcome.BROKEN, str(error), 0.0)
    finally:
        copy.restore(mutant)
    return result._replace(seconds=time.monotonic() - began)


def run_tests(copy: TreeCopy, tests: Sequence[str], timeout: float, *, stop_early: bool) -> Result:
    """Run *tests* in *copy*; *timeout* is in seconds. The outcome is SURVIVED if all of them pass."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="pyklient-mutant-") as scratch:
        report = Path(scratch) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short"]
        command += [f"--timeout={_TEST_SECONDS}", f"--junitxml={report}", f"--basetemp={scratch}/tmp"]
        command += ["-m", "not java", "-o", "junit_family=xunit1", *(["-x"] if stop_early else []), *tests]
        status, output = _run(command, copy, timeout)
        failures = _failures(report) if report.exists() else _Failures([], [])
    return Result(*_judge(status, output, failures), time.monotonic() - began)


def _judge(status: int | None, output: str, failures: _Failures) -> tuple[Outcome, str]:
    tail = "\n".join(output.splitlines()[-25:])
    if status is None:
        return Outcome.ENDLESS, tail
    if status == 0:
        return Outcome.SURVIVED, ""
    if status != _FAILED or not failures.failed:
        return Outcome.BROKEN, f"pytest ended with status {status}:\n{tail}"
    test, message = failures.failed[0]
    if message.startswith(_MISTAKES_OF_THE_MUTANT):
        return Outcome.BROKEN, f"{test}: {message}"
    return Outcome.NOTICED, ", ".join(name for name, _ in failures.failed)


def _run(command: Sequence[str], copy: TreeCopy, timeout: float) -> tuple[int | None, str]:
    """Return the exit status, None if the run was killed, and the output."""
    process = subprocess.Popen(
        command,
        cwd=copy.folder,
        env=copy.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    _running.add(process)
    try:
        if _ending.is_set():
            _end(process)
        try:
            output, _ = process.communicate(timeout=timeout)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            _end(process)
            output, _ = process.communicate()
            return None, output
    finally:
        _running.discard(process)


def _end(process: subprocess.Popen[str]) -> None:
    """Kill the tests and every process in their process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failures(report: Path) -> _Failures:
    found = _Failures([], [])
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        file, module = case.get("file") or "", case.get("classname") or ""
        classes = module.removeprefix(file.removesuffix(".py").replace("/", ".")).removeprefix(".")
        test = "::".join(filter(None, (file, classes.replace(".", "::"), case.get("name"))))
        for failure in case.iter("failure"):
            found.failed.append((test, failure.get("message") or ""))
        for error in case.iter("error"):
            found.errors.append((test, error.get("message") or ""))
    return found

"""A Spark job in a process of its own, whose parts can be found and killed."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers.reaper import Reaper
from tools.repository import ROOT
from tools.spark.processes import Process, descendants

__all__ = ["Job"]


class Job:
    """A Spark job in a process of its own, which can be started again. For Linux and macOS."""

    def __init__(self, directory: Path, reaper: Reaper, given: Mapping[str, str]) -> None:
        self.log = directory / "job.log"
        self._command = [sys.executable, "-m", "tools.spark.chaos.job", json.dumps(dict(given))]
        self._environment = os.environ | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
        }
        self._reaper = reaper
        self._process: subprocess.Popen[bytes] | None = None
        self._groups: list[int] = []

    def start(self) -> None:
        """Start it (again)."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=self._environment,
            )
        self._groups.append(self._process.pid)
        self._reaper.adopt(self._process.pid)

    @property
    def status(self) -> int | None:
        """The exit status of the job; None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def executors(self) -> list[int]:
        return [each.pid for each in self._tree() if "CoarseGrainedExecutorBackend" in each.command]

    def workers(self) -> list[int]:
        """Return the Python processes that run tasks of an executor."""
        return [each.pid for each in self._forked() if _is_executor(each.above)]

    def planners(self) -> list[int]:
        """Return the Python processes that look up the offsets of a query and run its commits."""
        runners = [each for each in self._tree() if "streaming_source_runner" in each.command]
        return [each.pid for each in (*runners, *self._forked()) if not _is_executor(each.above)]

    def kill_driver(self) -> bool:
        """SIGKILL the Python and the Java process of the driver. Executors notice that a while later.

        Return False if the job had already ended.
        """
        assert self._process is not None
        was_there = self.status is None
        java = [each.pid for each in self._tree() if "SparkSubmit" in each.command]
        for pid in (self._process.pid, *java):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return self._process.wait(10) == -signal.SIGKILL and was_there

    def tail(self, lines: int = 60) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def close(self) -> None:
        """Kill the job, and processes that earlier runs have left."""
        for group in self._groups:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
            self._reaper.release(group)
        if self._process is not None:
            self._process.wait(10)

    def _tree(self) -> list[Process]:
        assert self._process is not None
        return list(descendants(self._process.pid))

    def _forked(self) -> list[Process]:
        # The daemon forks a process for each worker.
        name = "pyspark.daemon"
        return [each for each in self._tree() if name in each.command and name in "".join(each.above[:1])]


def _is_executor(above: tuple[str, ...]) -> bool:
    return any("CoarseGrainedExecutorBackend" in each for each in above)

"""A server program in its own process group: started, waited for, killed and stopped, in limited time."""

import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.servers.reaper import Reaper

__all__ = ["Growth", "ServerFailedError", "ServerProcess", "resident", "wait_until"]

_STOP_TIMEOUT = 20.0
_START_TIMEOUT = 90.0


class ServerFailedError(Exception):
    """A server ended or did not get ready; the message ends with the end of its log."""


def wait_until(condition: Callable[[], bool], timeout: float, what: str, poll: float = 0.05) -> None:
    """Return when *condition* is true. Raise a TimeoutError that names *what* if that takes more than
    *timeout* seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout:g} s")
        time.sleep(poll)


def resident(pid: int) -> int:
    """Return the bytes of memory that process *pid* uses."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except FileNotFoundError:  # no /proc: macOS
        command = ["ps", "-o", "rss=", "-p", str(pid)]
        told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
        return int(told.stdout) * 1024


class Growth:
    """The growth of the memory of process *pid* from now on.

    ``peak`` also counts memory that the process has released meanwhile. It ignores the memory that the
    process used before, which getrusage cannot. Memory that the process has kept can be used again without
    growth, so a measurement needs a new process.
    """

    def __init__(self, pid: int) -> None:
        self._status = Path(f"/proc/{pid}/status")
        self._pid = pid
        if self._status.exists():
            Path(f"/proc/{pid}/clear_refs").write_text("5")
        self._before = resident(pid)

    @property
    def peak(self) -> int:
        """Return the largest number of bytes that the process used, beyond those that it used at first."""
        if self._status.exists():
            found = re.search(r"VmHWM:\s+(\d+) kB", self._status.read_text())
            assert found, f"process {self._pid} has ended"
            return int(found[1]) * 1024 - self._before
        return resident(self._pid) - self._before  # no /proc: what it holds now


class ServerProcess:
    """One server program with its log file. May be started again after it has ended."""

    def __init__(self, name: str, command: Sequence[str], directory: Path, reaper: Reaper) -> None:
        self.name = name
        self.command = list(command)
        self.directory = directory
        self.log = directory / f"{name}.log"
        self._reaper = reaper
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        if self._process is None:
            raise ServerFailedError(f"{self.name} has not been started")
        return self._process.pid

    def launch(self, environment: Mapping[str, str] | None = None) -> None:
        """Start the program; it may take a while to be ready."""
        if self.running:
            raise ServerFailedError(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        self._reaper.adopt(self._process.pid)

    def wait_ready(self, ready: Callable[[], bool], timeout: float = _START_TIMEOUT) -> None:
        """Return when *ready* is true. Raises ServerFailedError if the program ends or is not ready in
        time."""

        def ended_or_ready() -> bool:
            if not self.running:
                raise ServerFailedError(f"{self.name} ended while starting; {self.log}:\n{self.tail()}")
            return ready()

        try:
            wait_until(ended_or_ready, timeout, f"{self.name} ready")
        except TimeoutError as error:
            raise ServerFailedError(f"{error}; {self.log}:\n{self.tail()}") from None

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end of the process."""
        self._signal(signal.SIGKILL)
        self._reap(10)

    def pause(self) -> None:
        """Send SIGSTOP: connections stay open, but nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process go on after :meth:`pause`."""
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Send SIGTERM, and SIGKILL if the process does not end in time."""
        if not self.running:
            return
        self._signal(signal.SIGCONT)
        self._signal(signal.SIGTERM)
        try:
            self._reap(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()

    def tail(self, lines: int = 30) -> str:
        """Return the last lines of the log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except FileNotFoundError:
            return "(no log)"

    def _signal(self, number: int) -> None:
        if self.running:
            os.killpg(self.pid, number)

    def _reap(self, timeout: float) -> None:
        if self._process is not None:
            self._process.wait(timeout=timeout)
            self._reaper.release(self._process.pid)

"""A member of a group as a child process, which prints what it gets and leaves when it is told to."""

import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["MemberProcess"]


class MemberProcess(ABC):
    """A running child process. It leaves its group and ends when a line comes on its standard input.

    Leaving the ``with`` block ends it in whatever state it is.
    """

    def __init__(self, command: Sequence[str], directory: Path | None = None) -> None:
        self._errors: list[str] = []
        self._process = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=self._read_output, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @abstractmethod
    def take(self, line: str) -> None:
        """Record *line*, which the process has printed. The line has no line break."""

    @property
    def log(self) -> str:
        """What the process has logged."""
        return "".join(self._errors)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def kill(self) -> None:
        """Send SIGKILL. All that the process has printed has been read when this returns."""
        self._process.kill()
        self._end()

    def pause(self) -> None:
        """Send SIGSTOP. The connections of the process stay open, but it does nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process continue after :meth:`pause`."""
        self._process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """Make the member leave its group, and wait for the end of the process."""
        assert self._process.stdin is not None
        self._process.stdin.write("leave\n")
        self._process.stdin.flush()
        self._process.wait(timeout=60)
        self._end()
        assert self._process.returncode == 0, self.log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        if error is not None:
            error.add_note(f"member {self._process.pid} logged:\n{self.log}")

    def _end(self) -> None:
        self._process.wait(timeout=60)
        for reader in self._readers:
            reader.join(timeout=10)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read_output(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # the last line of a process that was killed may be cut
                self.take(line[:-1])

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors.extend(self._process.stderr)

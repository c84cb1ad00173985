"""A process that runs a little longer than the test run and ends the servers that the run has left.

Fixtures stop their servers and delete their files, but a test run that is killed cannot. The reaper reads
the ids of process groups and the paths of folders from a pipe. When the pipe closes, it kills the groups that
were not released, and deletes the folders.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

__all__ = ["Reaper"]


class Reaper:
    """Knows the process groups of all running servers. There is one for the whole test run."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, start_new_session=True, text=True
        )

    def adopt(self, group: int) -> None:
        """Kill process group *group* if the test run ends without :meth:`release`."""
        self._tell(f"+{group}")

    def release(self, group: int) -> None:
        """Forget *group*, which has ended."""
        self._tell(f"-{group}")

    def delete_at_end(self, folder: Path) -> None:
        """Delete *folder* when the test run has ended."""
        self._tell(f"/{folder}")

    def close(self) -> None:
        """End the reaper and all process groups that it still knows."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=10)

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def _main() -> None:
    groups: set[int] = set()
    folders: list[str] = []
    for line in sys.stdin:
        if line[0] == "/":
            folders.append(line[1:].rstrip("\n"))
            continue
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    _main()

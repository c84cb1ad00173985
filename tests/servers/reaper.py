"""A process that outlives the test run by a moment and ends the servers that the run left behind.

Fixtures stop their servers; a test run that is itself killed cannot. The reaper reads the ids of process
groups from a pipe and, when the pipe closes without them having been taken back, kills them.
"""

import contextlib
import os
import signal
import subprocess
import sys

__all__ = ["Reaper"]


class Reaper:
    """Knows the process groups of all running servers. One for the whole test run."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, start_new_session=True, text=True
        )

    def adopt(self, group: int) -> None:
        """Kill process group *group* should the test run end without :meth:`release`."""
        self._tell(f"+{group}")

    def release(self, group: int) -> None:
        """*group* has ended."""
        self._tell(f"-{group}")

    def close(self) -> None:
        """End the reaper, and with it whatever is still adopted."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait(timeout=10)

    def _tell(self, line: str) -> None:
        if self._process.stdin is not None:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()


def _main() -> None:
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    _main()

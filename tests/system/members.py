"""Members of a group in processes of their own, as the tests see them."""

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.servers.process import wait_until

__all__ = ["Member"]

_ROOT = Path(__file__).parents[2]


class Member:
    """A running :mod:`tests.system.member`. Leaving the ``with`` block ends it in whatever state it is."""

    def __init__(
        self,
        bootstrap: str,
        group: str,
        topics: Sequence[str],
        *,
        streams: int = 1,
        hold_at: int | None = None,
        commit_each: bool = False,
        **options: object,
    ) -> None:
        job = {
            "bootstrap": bootstrap,
            "group": group,
            "topics": topics,
            "streams": streams,
            "hold_at": hold_at,
            "commit_each": commit_each,
            "options": {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 300, **options},
        }
        self.events: list[dict[str, Any]] = []
        self._errors: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.system.member", json.dumps(job)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=self._read_events, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def messages(self) -> list[tuple[int, int]]:
        """(partition, offset) of what was handed out so far, in order."""
        return [(event["partition"], event["offset"]) for event in self.events if "offset" in event]

    def wait_messages(self, count: int, timeout: float = 30) -> None:
        """Return once *count* messages have been handed out."""
        try:
            wait_until(lambda: len(self.messages) >= count, timeout, f"{count} messages")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it got {len(self.messages)}\n{self.log}") from None

    @property
    def log(self) -> str:
        """What it logged."""
        return "".join(self._errors)

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL; all it said has been read when this returns."""
        self._process.kill()
        self._end()

    def pause(self) -> None:
        """SIGSTOP: connections stay open, but it does nothing."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after :meth:`pause`."""
        self._process.send_signal(signal.SIGCONT)

    def leave(self) -> None:
        """It closes its connector and ends."""
        assert self._process.stdin is not None
        self._process.stdin.write("leave\n")
        self._process.stdin.flush()
        self._process.wait(timeout=20)
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
        self._process.wait(timeout=10)
        for reader in self._readers:
            reader.join(timeout=10)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read_events(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):
                self.events.append(json.loads(line))

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line)

"""Kafka's own classes in a child process that answers each line with a line."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from threading import Thread
from types import TracebackType
from typing import IO, Final, Self

from tests.servers.java import java_command
from tests.servers.maven import kafka_libs

__all__ = ["Oracle", "OracleError", "answers"]

_HERE: Final = Path(__file__).parent
_SECONDS_TO_END: Final = 20


class OracleError(Exception):
    """The Java program has died."""


class Oracle:
    """A running Java source file of this directory, with the jars of one Kafka version. A context manager."""

    def __init__(self, version: str, source: str) -> None:
        self.version = version
        self._process = subprocess.Popen(
            java_command(kafka_libs(version), str(_HERE / source)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )

    def ask(self, questions: Iterable[str]) -> list[str]:
        """Return one line of answer for each line of *questions*, in order."""
        lines = list(questions)
        stdin, stdout = self._pipes()
        writer = Thread(target=_write, args=(stdin, lines), daemon=True)
        writer.start()
        found = []
        for _ in lines:
            line = stdout.readline()
            if not line.endswith("\n"):
                raise OracleError(f"the oracle for Kafka {self.version} has ended: {self._process.poll()}")
            found.append(line[:-1])
        writer.join()
        return found

    def _pipes(self) -> tuple[IO[str], IO[str]]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        return stdin, stdout

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stdin, stdout = self._pipes()
        stdin.close()
        try:
            self._process.wait(_SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(_SECONDS_TO_END)
        finally:
            stdout.close()


def answers(version: str, source: str) -> list[str]:
    """Return all lines that a Java source file of this directory writes without input."""
    ran = subprocess.run(
        java_command(kafka_libs(version), str(_HERE / source)),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=True,
    )
    return ran.stdout.splitlines()


def _write(stdin: IO[str], lines: list[str]) -> None:
    try:
        for line in lines:
            stdin.write(line + "\n")
        stdin.flush()
    except BrokenPipeError:
        return  # the reading side sees the end of the program, and says so

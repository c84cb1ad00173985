"""Scala's high-level consumer of Kafka 0.8.2.2 as a child process."""

import subprocess
import threading
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.servers.java import java_command
from tests.servers.maven import kafka_libs
from tests.servers.process import wait_until

__all__ = ["ScalaConsumer"]

_VERSION: Final = "0.8.2.2"
_SOURCE: Final = Path(__file__).parent / "ScalaConsumer.java"


class ScalaConsumer:
    """A member of a ZooKeeper group that reads *topic*, or all topics that *whitelist* matches.

    ``properties`` are Kafka's, with underscores for dots. Leaving the ``with`` block ends it in whatever
    state it is.
    """

    def __init__(
        self,
        zookeeper: str,
        group: str,
        topic: str | None = None,
        *,
        whitelist: str = "",
        streams: int = 1,
        name: str | None = None,
        **properties: object,
    ) -> None:
        settings = {
            "zookeeper.connect": zookeeper,
            "group.id": group,
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": 500,
            "rebalance.max.retries": 40,
            **({} if name is None else {"consumer.id": name}),
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
        what = f"whitelist:{whitelist}" if topic is None else f"topic:{topic}"
        given = [f"{key}={value}" for key, value in settings.items()]
        self.name = name
        self.messages: list[tuple[int, int]] = []
        """(partition, offset) of what was handed out so far, in order."""
        self.lines: list[str] = []
        """What it has printed."""
        self._errors: list[str] = []
        self._process = subprocess.Popen(
            java_command(kafka_libs(_VERSION), str(_SOURCE), str(streams), what, *given, heap="128m"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._readers = [
            threading.Thread(target=self._read, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def log(self) -> str:
        """What it has logged."""
        return "".join(self._errors)

    def wait_ready(self, timeout: float = 60) -> None:
        """Return when it has its streams."""
        try:
            wait_until(lambda: "ready" in self.lines, timeout, "Scala's consumer has streams")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log}") from None

    def kill(self) -> None:
        """Send SIGKILL. All that it has printed has been read when this returns."""
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """Make it shut down, and wait for the end of the process."""
        assert self._process.stdin is not None
        self._process.stdin.write("leave\n")
        self._process.stdin.flush()
        self._process.wait(timeout=30)
        self._end()
        assert self.lines[-1] == "left", self.log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.kill()
        if error is not None:
            error.add_note(f"Scala's consumer {self.name} logged:\n{self.log}")

    def _end(self) -> None:
        self._process.wait(timeout=10)
        for reader in self._readers:
            reader.join(timeout=10)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith("\n"):
                return
            words = line.split()
            if len(words) >= 4:
                self.messages.append((int(words[2]), int(words[3])))
            self.lines.append(line[:-1])

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._errors.append(line)

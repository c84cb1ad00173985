"""Scala's high-level consumer of Kafka 0.8.2.2 as a child process."""

from pathlib import Path
from typing import Final

from tests.servers.java import java_command
from tests.servers.maven import kafka_libs
from tests.servers.member_process import MemberProcess
from tests.servers.process import wait_until

__all__ = ["ScalaConsumer"]

_VERSION: Final = "0.8.2.2"
_SOURCE: Final = Path(__file__).parent / "ScalaConsumer.java"


class ScalaConsumer(MemberProcess):
    """A member of a ZooKeeper group that reads *topic*, or all topics that *whitelist* matches.

    ``properties`` are Kafka's, with underscores for dots.
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
        super().__init__(
            java_command(kafka_libs(_VERSION), str(_SOURCE), str(streams), what, *given, heap="128m")
        )

    def wait_ready(self, timeout: float = 60) -> None:
        """Return when it has its streams."""
        try:
            wait_until(lambda: "ready" in self.lines, timeout, "Scala's consumer has streams")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\n{self.log}") from None

    def leave(self) -> None:
        """Make it shut down, and wait for the end of the process."""
        super().leave()
        assert self.lines[-1] == "left", self.log

    def take(self, line: str) -> None:
        """Record *line*, which tells of a message or of a change of state."""
        words = line.split()
        if len(words) >= 4:
            self.messages.append((int(words[2]), int(words[3])))
        self.lines.append(line)

"""Java's consumer of Kafka 4.3.1 as a child process."""

from pathlib import Path
from typing import Final

from tests.servers.java import java_command
from tests.servers.maven import kafka_libs
from tests.servers.member_process import MemberProcess

__all__ = ["JavaConsumer"]

_VERSION: Final = "4.3.1"
_SOURCE: Final = Path(__file__).parent / "JavaConsumer.java"


class JavaConsumer(MemberProcess):
    """A member of a group that Kafka coordinates, which reads *topic*. ``properties`` are Kafka's, with
    underscores for dots."""

    def __init__(self, bootstrap: str, group: str, topic: str, **properties: object) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 300,
            **{key.replace("_", "."): value for key, value in properties.items()},
        }
        self.messages: list[tuple[int, int]] = []
        """(partition, offset) of what was handed out so far, in order."""
        given = [f"{key}={value}" for key, value in settings.items()]
        super().__init__(java_command(kafka_libs(_VERSION), str(_SOURCE), topic, *given, heap="128m"))

    def take(self, line: str) -> None:
        """Record *line*, which tells of a message."""
        partition, offset = line.split()
        self.messages.append((int(partition), int(offset)))

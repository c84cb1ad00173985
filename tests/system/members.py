"""Members of a group in processes of their own, as the tests see them."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.servers.member_process import MemberProcess
from tests.servers.process import wait_until

__all__ = ["Member"]

_ROOT = Path(__file__).parents[2]


class Member(MemberProcess):
    """A running :mod:`tests.system.member`."""

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
        super().__init__([sys.executable, "-m", "tests.system.member", json.dumps(job)], _ROOT)

    @property
    def messages(self) -> list[tuple[int, int]]:
        """(partition, offset) of what was handed out so far, in order."""
        return [(event["partition"], event["offset"]) for event in self.events if "offset" in event]

    def wait_messages(self, count: int, timeout: float = 60) -> None:
        """Return once *count* messages have been handed out."""
        try:
            wait_until(lambda: len(self.messages) >= count, timeout, f"{count} messages")
        except TimeoutError as error:
            raise TimeoutError(f"{error}; it got {len(self.messages)}\n{self.log}") from None

    def take(self, line: str) -> None:
        """Record the event in *line*."""
        self.events.append(json.loads(line))

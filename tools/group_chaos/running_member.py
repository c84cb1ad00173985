"""A member of the group, as the program that started it sees it: what it gets, owns and finds wrong."""

import json
import signal
import sys
import time
from collections.abc import Mapping

from pyklient import TopicPartition
from tests.servers.member_process import MemberProcess
from tools.group_chaos.hand_outs import HandOut, HandOuts
from tools.repository import ROOT

__all__ = ["RunningMember"]

_OPTIONS: Mapping[str, object] = {
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 200,
    "heartbeat_interval_ms": 300,
    "metadata_max_age_ms": 1_000,
    "fetch_max_wait_ms": 200,
}


class RunningMember(MemberProcess):
    """The member *name* of *group*, which reads the topics that *pattern* matches, as a child process.

    What it gets is added to *hand_outs*. *options* are options of its connector.
    """

    def __init__(
        self,
        bootstrap: str,
        group: str,
        pattern: str,
        name: str,
        hand_outs: HandOuts,
        options: Mapping[str, object],
    ) -> None:
        self.name = name
        self.stopped = False
        self.owned = 0
        """The number of partitions that the member owns."""
        self.owned_since = 0.0
        """The time at which ``owned`` changed last."""
        self.problems: list[str] = []
        """What the member's rebalance listener was told and cannot be."""
        self._hand_outs = hand_outs
        job = {
            "bootstrap": bootstrap,
            "group": group,
            "pattern": pattern,
            "options": {"client_id": name, **_OPTIONS, **options},
        }
        super().__init__([sys.executable, "-m", "tools.group_chaos.member", json.dumps(job)], ROOT)

    def take(self, line: str) -> None:
        match line.split():
            case ["problem", *_]:
                self.problems.append(f"{self.name}: {line}")
            case ["owns", at, count]:
                self.owned, self.owned_since = int(count), float(at)
            case [at, topic, partition, offset]:
                where = TopicPartition(topic, int(partition))
                self._hand_outs.add(where, int(offset), HandOut(float(at), self.name))

    def dump_threads(self) -> None:
        """Make the member log where its threads are."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)

    def tell(self, line: str) -> None:
        """Send *line* to the member."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

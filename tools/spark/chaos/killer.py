"""Finds a process of a given kind and kills it."""

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Mapping
from typing import Protocol

from tests.servers.process import wait_until
from tests.servers.server import Server

__all__ = ["VICTIMS", "Killer", "Victims"]

VICTIMS = ("worker", "executor", "broker", "driver", "planner")
_LONGEST_WAIT = 1.5
_PATIENCE = 60.0


class Victims(Protocol):
    """The processes of a job."""

    @property
    def status(self) -> int | None: ...

    def start(self) -> None: ...

    def executors(self) -> list[int]: ...

    def workers(self) -> list[int]: ...

    def planners(self) -> list[int]: ...

    def kill_driver(self) -> bool: ...


class Killer:
    """Kills processes of *job* and its *broker*, chosen by *dice*."""

    def __init__(self, broker: Server, job: Victims, dice: random.Random) -> None:
        self._broker, self._job, self._dice = broker, job, dice
        self._find: Mapping[str, Callable[[], list[int]]] = {
            "worker": job.workers,
            "executor": job.executors,
            "planner": job.planners,
        }

    def kill(self, victim: str) -> str | None:
        """SIGKILL one process of kind *victim*. Return its name, or None if there was no such process."""
        if victim == "broker":
            return self._kill_broker()
        if victim == "driver":
            killed = self._job.kill_driver()
            self._job.start()
            return victim if killed else None
        find = self._find[victim]
        wait_until(lambda: bool(find()) or self._job.status is not None, _PATIENCE, f"a {victim} to kill")
        pids = find()
        if not pids:
            return None
        pid = self._dice.choice(pids)
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return None
        wait_until(lambda: pid not in find(), _PATIENCE, f"the end of {victim} {pid}")
        return f"{victim} {pid}"

    def _kill_broker(self) -> str | None:
        was_there = _listens(self._broker)
        self._broker.kill()
        assert not _listens(self._broker), "the broker still listens after it was killed"
        time.sleep(self._dice.uniform(0, _LONGEST_WAIT))
        self._broker.restart()
        return "broker" if was_there else None


def _listens(broker: Server) -> bool:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0

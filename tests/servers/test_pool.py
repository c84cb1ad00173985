"""The end of a pool of servers, and whose logs a failed test gets."""

import time
from pathlib import Path

import pytest

from tests.servers.kinds import KINDS, Kind
from tests.servers.pool import ServerPool, Use
from tests.servers.reaper import Reaper
from tests.servers.server import ExternalKafka


class SlowToStop(ExternalKafka):
    """A server that counts how many like it run."""

    running = 0

    def __init__(self, directory: Path, reaper: Reaper) -> None:
        super().__init__("")

    def start(self) -> None:
        SlowToStop.running += 1

    def stop(self) -> None:
        time.sleep(0.1)
        SlowToStop.running = max(0, SlowToStop.running - 1)

    def logs(self) -> dict[str, str]:
        return {"slow": "a line"}


def test_servers_that_are_still_to_be_stopped_when_a_pool_closes_are_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = tuple(f"slow-{number}" for number in range(6))
    for name in names:
        monkeypatch.setitem(KINDS, name, Kind(name, (4, 3), SlowToStop, real=False))
    pool = ServerPool(tmp_path, [Use("only", names)])
    pool.before("only")
    for name in names:
        pool.get(name)
    pool.after("only")
    pool.close()
    assert {served.name for served in pool.served} == set(names)
    assert not SlowToStop.running


def test_logs_are_those_of_the_named_servers_and_of_servers_made_since_the_test_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("slow-0", "slow-1"):
        monkeypatch.setitem(KINDS, name, Kind(name, (4, 3), SlowToStop, real=False))
    pool = ServerPool(tmp_path, [Use("first", ("slow-0",)), Use("second", ("slow-1",))])
    pool.before("first")
    pool.get("slow-0")
    pool.get("slow-1")
    counts = [len(list(pool.logs(("slow-1",))))]
    pool.before("second")
    counts += [len(list(pool.logs(names))) for names in ((), ("slow-1",), ("slow-0", "slow-1"))]
    pool.close()
    assert counts == [2, 0, 1, 2]

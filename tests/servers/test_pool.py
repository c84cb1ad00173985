"""The end of a pool of servers."""

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

"""Ten kills; ``make chaos-spark`` makes fifty."""

import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.run.seed import seed as run_seed
from tests.servers.fixtures import NewName, StartReference
from tests.servers.pool import Server
from tests.servers.programs import program
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tools.spark.chaos.killer import VICTIMS, Killer
from tools.spark.chaos.kills import Kills, Stored


# In `make test`, drivers, Python workers and brokers die one at a time: in loading/test_load.py and in
# sink/test_killed_writes.py. Here they die under all kinds of jobs at once, and executors do too.
@pytest.mark.brokers(min="4.3", real=True)
@pytest.mark.long
@pytest.mark.restarts
@pytest.mark.slow
@pytest.mark.timeout(1800)  # of a machine that does other things too
def test_no_row_is_lost_and_none_is_there_twice_where_that_is_promised(
    any_broker: Server, tmp_path: Path, new_name: NewName
) -> None:
    victims = [*VICTIMS, *VICTIMS]
    program("java")
    reaper = Reaper()
    kills = Kills(any_broker, tmp_path / "job", reaper, name=new_name(), seed=run_seed(), say=print)
    try:
        stored = kills.run(victims)
    finally:
        kills.close()
        reaper.close()
    assert kills.killed == len(victims)
    assert stored.problems() == []


class Sleepers:
    """A job whose processes sleep: one driver, and as many workers as a test starts."""

    def __init__(self) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self.driver: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def status(self) -> int | None:
        assert self.driver is not None
        return self.driver.poll()

    def start(self) -> None:
        if self.driver is None or self.status is not None:
            self.driver = self.sleeper()

    def sleeper(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
        self.processes.append(process)
        return process

    def workers(self) -> list[int]:
        return [each.pid for each in self.processes if each is not self.driver and each.poll() is None]

    executors = planners = workers

    def kill_driver(self) -> bool:
        assert self.driver is not None
        was_there = self.status is None
        self.driver.kill()
        self.driver.wait(10)
        return was_there

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait(10)


@pytest.fixture
def sleepers() -> Iterator[Sleepers]:
    job = Sleepers()
    yield job
    job.close()


def test_a_kill_counts_once_its_process_has_ended(
    reference_broker: ReferenceBroker, sleepers: Sleepers
) -> None:
    killer = Killer(reference_broker, sleepers, random.Random(1))
    worker, first_driver = sleepers.sleeper(), sleepers.driver
    assert killer.kill("worker") == f"worker {worker.pid}"
    assert worker.poll() == -signal.SIGKILL
    assert killer.kill("driver") == "driver"
    assert first_driver is not None
    assert first_driver.poll() == -signal.SIGKILL
    assert sleepers.status is None


def test_a_kill_counts_for_nothing_where_there_was_nobody(
    reference_broker: ReferenceBroker, sleepers: Sleepers
) -> None:
    killer = Killer(reference_broker, sleepers, random.Random(1))
    assert sleepers.driver is not None
    sleepers.driver.kill()
    sleepers.driver.wait(10)
    assert killer.kill("worker") is None
    assert killer.kill("driver") is None
    assert sleepers.status is None  # started again all the same


def test_a_broker_that_was_killed_has_been_down(start_reference: StartReference, sleepers: Sleepers) -> None:
    broker = start_reference()
    before = broker.process.pid
    killer = Killer(broker, sleepers, random.Random(1))
    assert killer.kill("broker") == "broker"
    assert broker.process.pid != before
    broker.kill()
    assert killer.kill("broker") is None


def test_what_is_lost_or_doubled_is_seen() -> None:
    stored = Stored(sent=3)
    stored.source.update([0, 1, 2])
    stored.copy.update([0, 1, 1, 2])
    stored.copy_without_duplicates.update([0, 1, 2])
    stored.exactly_once["files"].update([0, 1, 2])
    assert stored.problems() == []
    assert stored.duplicates == 1
    stored.exactly_once["files"].update([2, 7])
    del stored.copy[0]
    assert stored.problems() == [
        "files: 1 numbers that nobody sent: [7]",
        "topic: 1 of 3 numbers are lost: [0]",
        "files: 1 numbers are there more than once: [2]",
    ]

"""A few kills; ``make chaos-spark`` has fifty."""

from pathlib import Path

import pytest

from tests.servers.fixtures import NewName
from tests.servers.java import program
from tests.servers.pool import Server
from tests.servers.reaper import Reaper
from tests.spark.chaos.kills import Kills, Stored


@pytest.mark.brokers("kafka-4.3.1")
@pytest.mark.restarts
@pytest.mark.slow
@pytest.mark.timeout(1800)  # of a machine that does other things too
def test_no_row_is_lost_and_none_is_there_twice_where_that_is_promised(
    any_broker: Server, tmp_path: Path, new_name: NewName
) -> None:
    program("java")
    reaper = Reaper()
    kills = Kills(any_broker, tmp_path / "job", reaper, name=new_name(), seed=1, say=print)
    try:
        stored = kills.run(["worker", "broker", "executor", "driver"])
    finally:
        kills.close()
        reaper.close()
    assert stored.problems() == []


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

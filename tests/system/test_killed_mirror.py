"""A mirror that is killed a few times, and so are its brokers; ``make chaos-mirror`` does so with real
clusters."""

from pathlib import Path

from tests.run.seed import seed
from tests.servers.fixtures import NewName, StartReference
from tools.mirror.kills import kill_mirror


def test_a_killed_mirror_loses_nothing_and_keeps_the_order(
    start_reference: StartReference, new_name: NewName, tmp_path: Path
) -> None:
    source, target = start_reference(), start_reference()
    problems = kill_mirror(source, target, new_name(), tmp_path, seed=seed(), kills=3, records=60_000)
    assert not problems, "\n".join(problems)

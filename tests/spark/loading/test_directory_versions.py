"""A directory is replaced by another version in one step, also if a process is killed or others write."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pyklient import ConfigurationError, LoadConflictError
from pyklient.spark.loading import directory_versions
from pyklient.spark.loading.data_set import DataSet, Manifest, Staging
from pyklient.spark.loading.file_systems import LocalFileSystem

ROOT = Path(__file__).parents[3]


def manifest(staging: Staging) -> Manifest:
    return Manifest(staging.number, staging.token, 1, [], {}, {"t": {"0": 0}}, {"t": {"0": 1}})


def published(data: DataSet, path: Path, number: int) -> None:
    staging = data.stage(number)
    (path / staging.name / "part-0").write_text(str(number))
    data.publish(staging, manifest(staging))


def visible(path: Path) -> list[str]:
    return sorted(each for each in os.listdir(path) if each[0] not in "_.")


def load_names(*numbers: int) -> list[str]:
    return [f"load={each:012}" for each in numbers]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A data set with the loads 0, 1 and 2."""
    data = DataSet(LocalFileSystem(tmp_path / "set"))
    for number in range(3):
        published(data, tmp_path / "set", number)
    return tmp_path / "set"


def test_loads_disappear_in_the_step_in_which_their_replacement_appears(path: Path) -> None:
    data = DataSet(LocalFileSystem(path))
    data.check_replacing()
    (path / "_notes").write_text("mine")
    kept = (path / "load=000000000000" / "part-0").stat().st_ino
    staging = data.stage(3)
    (path / staging.name / "part-0").write_text("1 and 2")
    data.publish(staging, manifest(staging), replaced=[1, 2], present=[0, 1, 2])
    assert visible(path) == load_names(0, 3)
    assert (path / "load=000000000000" / "part-0").stat().st_ino == kept
    assert (path / "load=000000000003" / "part-0").read_text() == "1 and 2"
    assert (path / "_notes").read_text() == "mine"
    assert [each.load for each in data.loads()] == [0, 3]
    data.remove_failed(3)
    assert os.listdir(path.parent) == ["set"]


def test_a_link_to_the_directory_stays_a_link(path: Path) -> None:
    link = path.parent / "link"
    link.symlink_to(path)
    data = DataSet(LocalFileSystem(link))
    staging = data.stage(3)
    data.publish(staging, manifest(staging), replaced=[0, 1, 2], present=[0, 1, 2])
    assert link.is_symlink()
    assert visible(path) == load_names(3)


def test_a_load_that_was_published_meanwhile_is_kept_and_the_replacement_fails(path: Path) -> None:
    data = DataSet(LocalFileSystem(path))
    staging = data.stage(3)
    published(data, path, 3)
    with pytest.raises(LoadConflictError, match=r"another load was published first as load=000000000003"):
        data.publish(staging, manifest(staging), replaced=[1, 2], present=[0, 1, 2])
    assert visible(path) == load_names(0, 1, 2, 3)
    assert (path / "load=000000000003" / "part-0").read_text() == "3"
    assert os.listdir(path.parent) == ["set"]


def test_a_system_that_cannot_exchange_directories_is_an_error_that_names_the_way_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(one: Path, other: Path) -> None:
        raise OSError(22, "Invalid argument", str(one))

    monkeypatch.setattr(directory_versions, "_exchange", fails)
    with pytest.raises(
        ConfigurationError, match=r"cannot be replaced in one step: .*Load into a new directory"
    ):
        DataSet(LocalFileSystem(path)).check_replacing()
    assert os.listdir(path.parent) == ["set"]


_REPLACER = """
import ctypes, os, signal, sys
from pathlib import Path
from pyklient.spark.loading import directory_versions
from pyklient.spark.loading.data_set import DataSet, Manifest
from pyklient.spark.loading.file_systems import LocalFileSystem

path, limit = sys.argv[1], int(sys.argv[2])
steps = 0
parent = os.path.dirname(path)

def count():
    global steps
    steps += 1
    if steps == limit:
        os.kill(os.getpid(), signal.SIGKILL)

def step(event, arguments):
    if event in ("os.mkdir", "os.rename", "os.rmdir", "os.remove", "os.link", "open") and any(
        parent in str(each) for each in arguments
    ):
        count()

exchange = directory_versions._exchange
def counted_exchange(one, other):
    count()
    exchange(one, other)
    count()

directory_versions._exchange = counted_exchange
sys.addaudithook(step)
data = DataSet(LocalFileSystem(Path(path)))
loads = data.loads()
numbers = [each.load for each in loads]
data.remove_failed(numbers[-1])
staging = data.stage(numbers[-1] + 1)
(Path(path) / staging.name / "part-0").write_text("1 and more")
manifest = Manifest(staging.number, staging.token, 1, [], {}, {}, {"t": {"0": staging.number}})
data.publish(staging, manifest, replaced=numbers[1:], present=numbers)
data.remove_failed(staging.number)
"""


def test_a_process_killed_at_any_step_leaves_the_old_loads_or_the_new_one(path: Path) -> None:
    replaced = False
    limit, step = 1, 3  # every third step: each takes a process
    while True:
        before = visible(path)
        command = [sys.executable, "-c", _REPLACER, str(path), str(limit)]
        ended = subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode
        after = visible(path)
        assert after == before or (len(after) == 2 and after[-1] > before[-1])
        replaced |= after != before
        for each in after:
            assert sorted(os.listdir(path / each)) == ["_offsets.json", "part-0"]
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
        limit += step
    assert limit > 20
    assert replaced
    assert os.listdir(path.parent) == ["set"]

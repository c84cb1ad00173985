"""The directory of a data set: a load is published in one step, only one of several loads, and remains of
others are removed."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyklient import ConfigurationError, LoadConflictError
from pyklient.spark.loading.data_set import DataSet, Manifest, Staging
from pyklient.spark.loading.file_systems import (
    FileSystem,
    HadoopFileSystem,
    LocalFileSystem,
    open_file_system,
)
from tests.servers.process import wait_until

ROOT = Path(__file__).parents[3]


@pytest.fixture(params=["local", pytest.param("hadoop", marks=pytest.mark.uses("spark"))])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FileSystem]:
    """Both kinds of access to a directory of this machine."""
    if request.param == "local":
        yield LocalFileSystem(tmp_path / "set")
        return
    spark: SparkSession = request.getfixturevalue("spark")
    jvm = spark._jvm
    assert jvm is not None
    root = jvm.org.apache.hadoop.fs.Path(str(tmp_path / "set"))
    system = root.getFileSystem(spark._jsc.hadoopConfiguration())
    yield HadoopFileSystem(jvm, spark.sparkContext._gateway, system, system.makeQualified(root))


def manifest(staging: Staging) -> Manifest:
    return Manifest(staging.number, staging.token, 1, [], {}, {"t": {"0": 0}}, {"t": {"0": 1}})


def names(data: DataSet) -> list[str]:
    root = Path(data.uri.removeprefix("file:"))
    return sorted(str(each.relative_to(root)) for each in root.rglob("*") if not each.name.endswith(".crc"))


def test_a_load_appears_whole_and_says_what_is_in_it(files: FileSystem) -> None:
    data = DataSet(files)
    assert data.newest() is None
    staging = data.stage(0)
    assert data.newest() is None
    files.write(f"{staging.name}/part-0", "rows")
    data.publish(staging, manifest(staging))
    assert data.newest() == manifest(staging)
    assert manifest(staging).positions == {("t", 0): 1}
    assert names(data) == [
        "_loading",
        "load=000000000000",
        "load=000000000000/_offsets.json",
        "load=000000000000/part-0",
    ]


def test_a_number_is_published_once(files: FileSystem) -> None:
    data = DataSet(files)
    first, second = data.stage(7), data.stage(7)
    data.publish(second, manifest(second))
    before = names(data)
    with pytest.raises(LoadConflictError, match="published first as load=000000000007"):
        data.publish(first, manifest(first))
    data.discard(first)
    assert data.newest() == manifest(second)
    assert names(data) == [each for each in before if first.token not in each]


class AnswersGetLost(LocalFileSystem):
    """A directory whose server carries out each request, but whose response is lost."""

    def rename(self, folder: str, target: str) -> None:
        super().rename(folder, target)
        raise ConnectionResetError("the answer is lost")


def test_a_load_whose_publication_is_not_answered_counts_once_it_is_there(tmp_path: Path) -> None:
    data = DataSet(AnswersGetLost(tmp_path))
    staging = data.stage(0)
    data.publish(staging, manifest(staging))
    assert data.newest() == manifest(staging)


def test_what_lost_its_number_is_swept_and_what_may_still_win_is_not(files: FileSystem) -> None:
    data = DataSet(files)
    lost, won, running = data.stage(3), data.stage(3), data.stage(4)
    data.publish(won, manifest(won))
    data.remove_failed(won.number)
    assert [each for each in names(data) if lost.token in each] == []
    data.publish(running, manifest(running))
    newest = data.newest()
    assert newest is not None
    assert newest.load == 4


def test_a_load_that_was_removed_while_it_ran_is_not_published(tmp_path: Path) -> None:
    data = DataSet(LocalFileSystem(tmp_path))
    staging = data.stage(0)
    # Somebody who does not see the lock; and a task that makes the directory again.
    (tmp_path / staging.name).rename(tmp_path / "_elsewhere")
    (tmp_path / staging.name).mkdir()
    with pytest.raises(FileNotFoundError):
        data.publish(staging, manifest(staging))
    assert data.newest() is None


def test_only_directories_of_loads_are_taken_for_a_data_set(tmp_path: Path) -> None:
    data = DataSet(LocalFileSystem(tmp_path))
    (tmp_path / "load=000000000000").mkdir()
    for text in (None, "", "[]", '{"version": 1}', '{"version": 2}'):
        if text is not None:
            (tmp_path / "load=000000000000" / "_offsets.json").write_text(text)
        with pytest.raises(ConfigurationError, match=r"_offsets\.json cannot be read .*Restore the file"):
            data.newest()
    (tmp_path / "part-0.parquet").touch()
    with pytest.raises(ConfigurationError, match=r"contains 'part-0\.parquet', which is not a load"):
        data.newest()


_LOADER = """
import os, signal, sys
from pathlib import Path
from pyklient.spark.loading.data_set import DataSet, Manifest
from pyklient.spark.loading.file_systems import LocalFileSystem

path, limit = sys.argv[1], int(sys.argv[2])
steps = 0

def step(event, arguments):
    global steps
    if event in ("os.mkdir", "os.rename", "os.rmdir", "os.remove", "open") and any(
        path in str(each) for each in arguments
    ):
        steps += 1
        if steps == limit:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(step)
data = DataSet(LocalFileSystem(Path(path)))
before = data.newest()
data.remove_failed(None if before is None else before.load)
staging = data.stage(0 if before is None else before.load + 1)
(Path(path) / staging.name / "part-0").write_text("rows")
data.publish(staging, Manifest(staging.number, staging.token, 1, [], {}, {}, {"t": {"0": staging.number}}))
data.remove_failed(staging.number)
"""


def run(path: Path, limit: int) -> int:
    """Run one load that is killed at step *limit*. Return its exit status."""
    command = [sys.executable, "-c", _LOADER, str(path), str(limit)]
    return subprocess.run(command, cwd=ROOT, check=False, timeout=60).returncode


def test_a_process_killed_at_any_step_leaves_a_whole_load_or_none(tmp_path: Path) -> None:
    data = DataSet(LocalFileSystem(tmp_path))
    published = 0
    for limit in range(1, 100):
        ended = run(tmp_path, limit)
        loads = sorted(each for each in os.listdir(tmp_path) if not each.startswith("_"))
        assert len(loads) in (published, published + 1)
        for each in loads:
            assert sorted(os.listdir(tmp_path / each)) == ["_offsets.json", "part-0"]
        published = len(loads)
        newest = data.newest()
        assert (newest.load + 1 if newest is not None else 0) == published
        if ended == 0:
            break
        assert ended == -signal.SIGKILL
    assert limit > 10
    assert os.listdir(tmp_path / "_loading") == []


def test_a_killed_process_is_known_to_have_left_and_a_running_one_is_not(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from pyklient.spark.loading.data_set import DataSet; "
        "from pyklient.spark.loading.file_systems import LocalFileSystem; "
        "DataSet(LocalFileSystem(Path(sys.argv[1]))).stage(0); time.sleep(120)"
    )
    staged = tmp_path / "_loading"
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT) as process:
        data = DataSet(LocalFileSystem(tmp_path))
        try:
            wait_until(lambda: staged.exists() and bool(os.listdir(staged)), 60, "a load begins")
            wait_until(lambda: _locked(staged), 60, "and is locked")
            data.remove_failed(None)
            assert len(os.listdir(staged)) == 1
        finally:
            process.kill()
    data.remove_failed(None)
    assert os.listdir(staged) == []


def _locked(staged: Path) -> bool:
    files = LocalFileSystem(staged)
    return not files.is_abandoned(os.listdir(staged)[0])


def test_spark_says_where_a_path_is(spark: SparkSession, tmp_path: Path) -> None:
    assert open_file_system(spark, tmp_path / "a b").root == f"file://{tmp_path}/a b"
    assert open_file_system(spark, f"file://{tmp_path}/x").root == (tmp_path / "x").as_uri()


def test_a_load_is_discarded_also_while_another_process_removes_what_it_was(tmp_path: Path) -> None:
    data = DataSet(LocalFileSystem(tmp_path))
    staging = data.stage(0)
    # Somebody has renamed it and is still deleting; a task has made the directory again.
    half_deleted = tmp_path / f"{staging.name}.gone"
    (tmp_path / staging.name).rename(half_deleted)
    (half_deleted / "part-0").touch()
    (tmp_path / staging.name).mkdir()
    (tmp_path / staging.name / "part-1").touch()
    data.discard(staging)
    assert os.listdir(tmp_path / "_loading") == [half_deleted.name]
    data.remove_failed(0)
    assert os.listdir(tmp_path / "_loading") == []

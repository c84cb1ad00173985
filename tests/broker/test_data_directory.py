"""The data directory."""

from pathlib import Path

import pytest

from pyklient.broker.data_directory import DataDirectory
from pyklient.broker.log.clean_shutdown import LogState, SegmentState
from pyklient.errors import ConfigurationError

LEFT = {"clicks-0": LogState([SegmentState(0, 70, 2, 1000, 0, 70)], [])}


def test_facts_come_back_and_so_does_what_a_clean_stop_has_left(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path / "data")
    assert first.left == {}
    first.save({"cluster_id": "c"})
    first.leave(LEFT)
    first.close()
    second = DataDirectory(tmp_path / "data")
    assert (second.facts, second.left) == ({"cluster_id": "c"}, LEFT)
    second.close()


def test_what_a_clean_stop_has_left_is_there_once(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    first.save({"cluster_id": "c"})
    first.leave(LEFT)
    first.close()
    DataDirectory(tmp_path).close()
    third = DataDirectory(tmp_path)
    assert third.left == {}
    third.close()


def test_a_mark_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = DataDirectory(tmp_path)
    first.save({"cluster_id": "c"})
    (tmp_path / ".clean.new").mkdir()
    first.leave(LEFT)
    first.close()
    assert "a clean stop could not be marked (Is a directory)" in caplog.text


def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(ConfigurationError, match="in use by another broker"):
        DataDirectory(tmp_path)
    first.close()


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigurationError, match="not a broker's"):
        DataDirectory(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_facts_that_do_not_parse_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "broker.json").write_text("{")
    with pytest.raises(ConfigurationError, match="is not a broker's file"):
        DataDirectory(tmp_path)


def test_a_temporary_directory_is_removed_on_close() -> None:
    data = DataDirectory(None)
    assert data.path.is_dir()
    data.close()
    assert not data.path.exists()

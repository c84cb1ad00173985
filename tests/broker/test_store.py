"""The data directory."""

from pathlib import Path

import pytest

from pyklient.broker.store import DataDirectory
from pyklient.errors import ConfigurationError


def test_facts_come_back_and_a_clean_stop_is_remembered(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path / "data")
    assert first.clean
    first.save({"cluster_id": "c"})
    first.close()
    second = DataDirectory(tmp_path / "data")
    assert (second.facts, second.clean) == ({"cluster_id": "c"}, True)
    second.close()


def test_a_stop_without_goodbye_is_noticed(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    first.save({"cluster_id": "c"})
    first.close()
    (tmp_path / ".clean").unlink()
    second = DataDirectory(tmp_path)
    assert not second.clean
    second.close()


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

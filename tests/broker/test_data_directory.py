"""The data directory of a broker."""

from pathlib import Path

import pytest

from pyklient.broker.data_directory import DataDirectory
from pyklient.errors import ConfigurationError


def test_the_metadata_comes_back(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path / "data")
    assert first.metadata == {}
    first.save({"cluster_id": "c"})
    first.close()
    second = DataDirectory(tmp_path / "data")
    assert second.metadata == {"cluster_id": "c"}
    second.close()


def test_two_brokers_cannot_share_a_directory(tmp_path: Path) -> None:
    first = DataDirectory(tmp_path)
    with pytest.raises(ConfigurationError, match="in use by another broker"):
        DataDirectory(tmp_path)
    first.close()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "data"
    with pytest.raises(ConfigurationError, match=f"data_dir {path} cannot be used: Not a directory"):
        DataDirectory(path)


def test_a_directory_with_other_files_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("precious")
    with pytest.raises(ConfigurationError, match="has files of another program"):
        DataDirectory(tmp_path)
    assert (tmp_path / "thesis.txt").read_text() == "precious"


def test_metadata_that_does_not_parse_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "broker.json").write_text("{")
    with pytest.raises(ConfigurationError, match="has no valid metadata of a broker"):
        DataDirectory(tmp_path)


def test_a_temporary_directory_is_removed_on_close() -> None:
    data = DataDirectory(None)
    assert data.path.is_dir()
    data.close()
    assert not data.path.exists()

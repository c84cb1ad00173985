"""The directory in which a broker stores its data. ``broker.json`` in it has the metadata of the cluster."""

import fcntl
import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Final

from pyklient.errors import ConfigurationError

__all__ = ["DataDirectory", "replace_file"]

_METADATA: Final = "broker.json"
_LOCK: Final = ".lock"


class DataDirectory:
    """A broker's data directory. The constructor opens *path* (a temporary directory if None) and locks it
    until ``close``.

    ``metadata`` is the metadata that the last broker saved there; it is empty in a new directory. Raises
    ConfigurationError if the directory cannot be written, if another broker uses it, or if it has files of
    another program.
    """

    def __init__(self, path: Path | None) -> None:
        self.temporary = path is None
        self.path = Path(tempfile.mkdtemp(prefix="pyklient-broker-")) if path is None else path
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigurationError(
                f"data_dir {self.path} cannot be used: {error.strerror or error}; choose a directory "
                "that can be written"
            ) from error
        try:
            self._acquire_lock()
            self.metadata = self._load()
        except BaseException:
            os.close(self._lock)
            raise

    def save(self, metadata: dict[str, Any]) -> None:
        """Replace the saved metadata of the cluster. After a crash, the file has either the old or the new
        contents."""
        self.metadata = metadata
        replace_file(self.path / _METADATA, json.dumps(metadata, indent=1).encode())

    def close(self) -> None:
        """Unlock the data directory, and remove it if it is temporary."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        # Unlock before closing: a forked child may still hold a copy of the descriptor.
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        os.close(self._lock)

    def _acquire_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(
                f"data_dir {self.path} is in use by another broker; choose another directory"
            ) from None

    def _load(self) -> dict[str, Any]:
        try:
            text = (self.path / _METADATA).read_text()
        except FileNotFoundError:
            if any(entry.name != _LOCK for entry in self.path.iterdir()):
                raise ConfigurationError(
                    f"data_dir {self.path} has files of another program; choose an empty directory"
                ) from None
            return {}
        try:
            metadata = json.loads(text)
        except ValueError:
            metadata = None
        if not isinstance(metadata, dict):
            raise ConfigurationError(
                f"{self.path / _METADATA} has no valid metadata of a broker; choose another data_dir"
            )
        return metadata


def replace_file(path: Path, data: bytes) -> None:
    """Replace the contents of the file *path* with *data*.

    After a crash, the file has either the old or the new contents.
    """
    draft = path.with_name(path.name + ".new")
    draft.write_bytes(data)
    draft.replace(path)

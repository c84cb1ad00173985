"""The data directory: one broker at a time, and small facts that are replaced as a whole.

``broker.json`` holds what must be there before any log is read: the cluster's id, the topics with their
ids and settings, the next free producer id. ``.clean`` is there while the broker is not running and was
stopped properly, and holds the state of its logs; without it they are checked to the last checksum.
"""

import fcntl
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pyklient.broker.log.clean_shutdown import LogState, decode_states, encode_states
from pyklient.errors import ConfigurationError

__all__ = ["DataDirectory", "replace"]

_logger = logging.getLogger("pyklient.broker")

_FACTS: Final = "broker.json"
_CLEAN: Final = ".clean"
_LOCK: Final = ".lock"


class DataDirectory:
    """Opens *path* (a temporary directory when None), and holds it until ``close``.

    ``left`` are the states of logs that the last owner has left in a clean stop, by the names of their
    directories; empty after any other end. Raises ConfigurationError when another broker uses the directory,
    or its contents are not a broker's.
    """

    def __init__(self, path: Path | None) -> None:
        self.temporary = path is None
        self.path = Path(tempfile.mkdtemp(prefix="pyklient-broker-")) if path is None else path
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            self._take()
            self.facts = self._load()
        except BaseException:
            os.close(self._lock)
            raise
        self.left = self._take_left()

    def save(self, facts: dict[str, Any]) -> None:
        """Replace the facts; a crash leaves either the old or the new ones."""
        self.facts = facts
        replace(self.path / _FACTS, json.dumps(facts, indent=1).encode())

    def leave(self, logs: Mapping[str, LogState]) -> None:
        """Mark a clean stop: *logs* are closed, and their files stay as they are until the next start."""
        if self.temporary:
            return
        try:
            replace(self.path / _CLEAN, encode_states(logs))
        except OSError as error:
            _logger.warning(
                "%s: a clean stop could not be marked (%s), so the next start reads all logs",
                self.path,
                error.strerror or error,
            )

    def close(self) -> None:
        """Let go of the directory; a temporary one is removed."""
        if self.temporary:
            shutil.rmtree(self.path, ignore_errors=True)
        # Unlocked before it is closed: a forked child may still hold a copy of the descriptor.
        fcntl.flock(self._lock, fcntl.LOCK_UN)
        os.close(self._lock)

    def _take_left(self) -> dict[str, LogState]:
        """What ``leave`` has left, once: its mark is removed, for from now on the logs change."""
        mark = self.path / _CLEAN
        try:
            data = mark.read_bytes()
        except FileNotFoundError:
            return {}
        mark.unlink()
        try:
            return decode_states(data)
        except (ValueError, TypeError, KeyError, AttributeError):
            return {}

    def _take(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigurationError(f"data_dir {self.path} is in use by another broker") from None

    def _load(self) -> dict[str, Any]:
        try:
            text = (self.path / _FACTS).read_text()
        except FileNotFoundError:
            if any(entry.name != _LOCK for entry in self.path.iterdir()):
                raise ConfigurationError(
                    f"data_dir {self.path} holds files that are not a broker's; choose an empty directory"
                ) from None
            return {}
        try:
            facts = json.loads(text)
        except ValueError:
            facts = None
        if not isinstance(facts, dict):
            raise ConfigurationError(f"{self.path / _FACTS} is not a broker's file; choose another data_dir")
        return facts


def replace(path: Path, data: bytes) -> None:
    """Write *data* under *path* so that a reader, or a restart, sees all of it or the old contents."""
    draft = path.with_name(path.name + ".new")
    draft.write_bytes(data)
    draft.replace(path)

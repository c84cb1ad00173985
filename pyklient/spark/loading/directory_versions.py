"""Replaces a directory on a local disk by another version of it, in one step.

The new version is prepared beside the directory. It shares unchanged files with the old version through hard
links. Then the system exchanges the names of both directories, which is one step: a reader sees the old
version or the new one. The old version is deleted afterwards. If a process is killed meanwhile,
``remove_abandoned`` deletes the version that is left beside the directory.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import re
import shutil
import sys
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

from pyklient.errors import ConfigurationError

__all__ = ["check_replacing", "remove_abandoned", "replace_version"]

_EXCHANGE: Final = 2
"""The flag of ``renameat2`` (Linux) and ``renamex_np`` (macOS) that exchanges two names."""
_WORKING_DIRECTORY: Final = -100
"""The value that Linux accepts in place of the descriptor of a directory. It means that relative paths begin
at the working directory."""


def check_replacing(root: Path) -> None:
    """Raise ConfigurationError if the file system of *root* cannot exchange two directories in one step, or
    if this process may not create directories beside *root*."""
    whole = root.resolve()
    one, other = _new_name(whole), _new_name(whole)
    try:
        with _locked(one, create=True), _locked(other, create=True):
            _exchange(one, other)
    except OSError as error:
        raise ConfigurationError(
            f"the loads in {whole} cannot be replaced in one step: {error}. This needs a local file "
            "system that can exchange two directories, and the right to create directories in "
            f"{whole.parent}. Load into a new directory instead, with 'start' set to the beginning of its "
            "records"
        ) from error
    finally:
        for each in (one, other):
            shutil.rmtree(each, ignore_errors=True)


def replace_version(
    root: Path, added: Path, name: str, kept: Collection[str], expected: Collection[str]
) -> None:
    """Replace *root* by a version of it that has the entries *kept* and the directory *added* under the name
    *name*.

    At the moment of the replacement, the visible entries of *root* must be those in *expected*. If they
    differ, because another process has added or replaced entries, FileExistsError is raised and *root* stays
    as it was.
    """
    whole = root.resolve()
    version = _new_name(whole)
    try:
        with _locked(version, create=True), _locked(whole):
            for each in kept:
                _link(whole / each, version / each)
            os.rename(added, version / name)
            _flush_directories(version)
            _exchange(version, whole)
            if {each for each in os.listdir(version) if each[0] not in "_."} != set(expected):
                _exchange(version, whole)
                raise FileExistsError(errno.EEXIST, "another process has changed the loads", str(whole))
            _flush_directory(whole.parent)
    finally:
        shutil.rmtree(version, ignore_errors=True)


def remove_abandoned(root: Path) -> None:
    """Delete the versions of *root* that interrupted calls of ``replace_version`` have left in its parent
    directory. Keep those that a running process uses."""
    whole = root.resolve()
    ours = re.compile(rf"\.{re.escape(whole.name)}\.[0-9a-f]{{32}}\.version")
    with contextlib.suppress(FileNotFoundError):
        for each in os.listdir(whole.parent):
            if ours.fullmatch(each) and _is_abandoned(whole.parent / each):
                shutil.rmtree(whole.parent / each, ignore_errors=True)


def _new_name(root: Path) -> Path:
    return root.with_name(f".{root.name}.{uuid.uuid4().hex}.version")


@contextlib.contextmanager
def _locked(path: Path, *, create: bool = False) -> Iterator[None]:
    """Keep the directory at *path* locked during the ``with`` block, so that ``remove_abandoned`` of other
    processes leaves it alone. The system also releases the lock when this process ends. If *create* is true,
    first create the directory."""
    if create:
        path.mkdir()
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _is_abandoned(path: Path) -> bool:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def _link(source: Path, target: Path) -> None:
    """Create *target* with the contents of *source*: new directories, and hard links of the files."""
    if source.is_dir():
        target.mkdir()
        for each in os.listdir(source):
            _link(source / each, target / each)
    else:
        os.link(source, target)


def _exchange(one: Path, other: Path) -> None:
    """Exchange the names of two directories in one step. Raises OSError if that is not possible."""
    library = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    try:
        if sys.platform == "darwin":
            failed = library.renamex_np(first, second, _EXCHANGE)
        else:
            failed = library.renameat2(_WORKING_DIRECTORY, first, _WORKING_DIRECTORY, second, _EXCHANGE)
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), str(one)) from None
    if failed:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(one), None, str(other))


def _flush_directories(root: Path) -> None:
    for path, _, _ in os.walk(root):
        _flush_directory(Path(path))


def _flush_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

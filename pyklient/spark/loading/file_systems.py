"""The file systems on which a data set can be stored: local disks and HDFS.

Both can rename a directory in one step, and fail if the new name exists. A load is published by such a
rename. An object store is not supported: it renames a directory by copying one file after the other, so
readers would see an incomplete load.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyklient.errors import ConfigurationError
from pyklient.spark.loading.directory_versions import (
    check_replacing,
    remove_abandoned,
    replace_version,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FileSystem", "HadoopFileSystem", "LocalFileSystem", "open_file_system"]

_LOCAL: Final = "file"
_HDFS: Final = "hdfs"
_TARGET_EXISTS: Final = (errno.EEXIST, errno.ENOTEMPTY)
_DELETED: Final = ".gone"


class FileSystem(Protocol):
    """Access to the files in the directory of a data set. All names are relative to this directory, with
    ``/`` between their parts."""

    @property
    def root(self) -> str:
        """The URI of the directory, in the form that Spark reads: without percent-encoding, because Spark
        would treat "%20" as a part of the name."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the files and folders in *folder*; an empty list if the folder does not
        exist."""

    def read(self, name: str) -> str | None:
        """Return the text of the file *name*; None if it does not exist."""

    def write(self, name: str, text: str) -> None:
        """Create the file *name* with the contents *text*."""

    def make_locked(self, folder: str) -> bool:
        """Create *folder* and lock it until this process ends. Return False if another process has removed it
        again before it was locked."""

    def is_abandoned(self, folder: str) -> bool:
        """Return True if the process that created and locked *folder* is known to have ended."""

    def rename(self, folder: str, target: str) -> None:
        """Rename *folder*, which :meth:`make_locked` has created, to *target* in one step.

        Raises FileExistsError if *target* exists.
        """

    def check_replacing(self) -> None:
        """Raise ConfigurationError if ``replace`` is not possible in this directory."""

    def replace(self, folder: str, target: str, kept: Collection[str], expected: Collection[str]) -> None:
        """Rename *folder* to *target* and delete all other entries of the directory except *kept*, in one
        step. *expected* has the names that the directory must contain, besides names that begin with ``_`` or
        ``.``. If it does not contain exactly these names, the method raises FileExistsError and changes
        nothing."""

    def remove_replaced(self) -> None:
        """Delete the directories that an interrupted ``replace`` has left behind."""

    def remove(self, folder: str) -> None:
        """Delete *folder* and its contents. Do nothing if it does not exist."""


def open_file_system(spark: "SparkSession", path: str | os.PathLike[str]) -> FileSystem:
    """Return the file system of *path*. A path without a scheme is on Spark's default file system.

    Raises ConfigurationError if the file system cannot rename a directory in one step, or if *spark* is a
    Spark Connect session, which cannot access the files of the server.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ConfigurationError(
            "load() needs a Spark session in the driver, because it cannot access the files over Spark "
            "Connect. Run it with spark-submit, or with a local master"
        )
    conf = spark._jsc.hadoopConfiguration()
    given = jvm.org.apache.hadoop.fs.Path(os.fspath(path))
    scheme = given.toUri().getScheme() or jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).getScheme()
    if scheme not in (_LOCAL, _HDFS):
        raise ConfigurationError(
            f"{os.fspath(path)} is on file system {scheme!r}, but a load is published by renaming a "
            f"directory in one step, which only {_LOCAL} and {_HDFS} support (object stores copy file after "
            "file). Load into one of these, and copy published loads from there"
        )
    system = given.getFileSystem(conf)
    whole = system.makeQualified(given)
    if scheme == _LOCAL:
        return LocalFileSystem(Path(whole.toUri().getPath()))
    return HadoopFileSystem(jvm, spark.sparkContext._gateway, system, whole)


class LocalFileSystem:
    """A directory on a local disk, or on a disk that is mounted on all machines."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._locks: dict[str, int] = {}

    @property
    def root(self) -> str:
        return f"{_LOCAL}://{self._root}"

    def names(self, folder: str = "") -> list[str]:
        try:
            return sorted(os.listdir(self._root / folder))
        except FileNotFoundError:
            return []

    def read(self, name: str) -> str | None:
        try:
            return (self._root / name).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def write(self, name: str, text: str) -> None:
        with (self._root / name).open("x", encoding="utf-8") as file:
            file.write(text)

    def make_locked(self, folder: str) -> bool:
        # The system releases the lock when the process ends, even if it is killed.
        path = self._root / folder
        path.mkdir(parents=True)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            return False
        self._locks[folder] = handle
        if self._is_locked(folder):
            return True
        self._unlock(folder)
        return False

    def is_abandoned(self, folder: str) -> bool:
        if folder.endswith(_DELETED):
            return True
        try:
            handle = os.open(self._root / folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        finally:
            os.close(handle)
        return True

    def rename(self, folder: str, target: str) -> None:
        self._check_and_flush(folder)
        try:
            # This fails if the target is not empty, and a published load never is.
            os.rename(self._root / folder, self._root / target)
        except OSError as error:
            if error.errno in _TARGET_EXISTS:
                raise FileExistsError(
                    errno.EEXIST, "another load was published in this directory", str(self._root / target)
                ) from error
            raise
        self._unlock(folder)
        _flush_directory(self._root)

    def check_replacing(self) -> None:
        check_replacing(self._root)

    def replace(self, folder: str, target: str, kept: Collection[str], expected: Collection[str]) -> None:
        self._check_and_flush(folder)
        replace_version(self._root, self._root / folder, target, kept, expected)
        self._unlock(folder)

    def remove_replaced(self) -> None:
        remove_abandoned(self._root)

    def remove(self, folder: str) -> None:
        path = self._root / folder
        gone = path
        if not folder.endswith(_DELETED):
            # Renaming first makes the removal one step, so that no process mistakes the remaining files for a
            # whole load. The new name is unique, because another process may be removing an earlier folder of
            # that name.
            gone = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{_DELETED}")
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._unlock(folder)

    def _check_and_flush(self, folder: str) -> None:
        if not self._is_locked(folder):
            # Spark's tasks create missing directories again: such a directory is not complete.
            raise FileNotFoundError(
                errno.ENOENT,
                "the load cannot be published: another process has removed its directory",
                str(self._root / folder),
            )
        _flush(self._root / folder)

    def _is_locked(self, folder: str) -> bool:
        handle = self._locks.get(folder)
        try:
            return handle is not None and os.path.samestat(os.fstat(handle), os.stat(self._root / folder))
        except FileNotFoundError:
            return False

    def _unlock(self, folder: str) -> None:
        handle = self._locks.pop(folder, None)
        if handle is not None:
            os.close(handle)


class HadoopFileSystem:
    """A directory on HDFS. It is accessed through Hadoop's client in the JVM of Spark's driver."""

    def __init__(self, jvm: Any, gateway: Any, system: Any, root: Any) -> None:
        self._jvm, self._gateway, self._system, self._root = jvm, gateway, system, root

    @property
    def root(self) -> str:
        return str(self._root.toString())

    def names(self, folder: str = "") -> list[str]:
        path = self._path(folder)
        if not self._system.exists(path):
            return []
        return sorted(str(each.getPath().getName()) for each in self._system.listStatus(path))

    def read(self, name: str) -> str | None:
        path = self._path(name)
        if not self._system.exists(path):
            return None
        stream = self._system.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def write(self, name: str, text: str) -> None:
        stream = self._system.create(self._path(name), False)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def make_locked(self, folder: str) -> bool:
        return bool(self._system.mkdirs(self._path(folder)))

    def is_abandoned(self, folder: str) -> bool:
        return False

    def rename(self, folder: str, target: str) -> None:
        # FileSystem.rename would move the folder into an existing target; FileContext.rename fails instead.
        context = self._jvm.org.apache.hadoop.fs.FileContext.getFileContext(
            self._system.getUri(), self._system.getConf()
        )
        kind = getattr(self._jvm.org.apache.hadoop.fs, "Options$Rename")
        how = self._gateway.new_array(kind, 1)
        how[0] = kind.NONE
        try:
            context.rename(self._path(folder), self._path(target), how)
        except Exception as error:
            if self._system.exists(self._path(target)):
                raise FileExistsError(
                    errno.EEXIST, "another load was published in this directory", f"{self.root}/{target}"
                ) from error
            raise

    def check_replacing(self) -> None:
        raise ConfigurationError(
            f"the loads in {self.root} cannot be replaced in one step, because HDFS cannot exchange two "
            "directories. Load into a new directory instead, with 'start' set to the beginning of its records"
        )

    def replace(self, folder: str, target: str, kept: Collection[str], expected: Collection[str]) -> None:
        self.check_replacing()

    def remove_replaced(self) -> None:
        return

    def remove(self, folder: str) -> None:
        self._system.delete(self._path(folder), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root


def _flush(folder: Path) -> None:
    """Write all files and directories in *folder*, which has a finished load, to the disk.

    The load is published by a rename afterwards. Without this call, a power failure after the rename could
    leave the load without the contents of its files.
    """
    for path, _, files in os.walk(folder):
        for name in files:
            handle = os.open(os.path.join(path, name), os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
        _flush_directory(path)


def _flush_directory(path: str | Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

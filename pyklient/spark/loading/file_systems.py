"""The file systems on which a data set can be stored: local disks and HDFS.

Both can rename a directory in one step, and only if the new name does not exist; this step makes a load
visible. An object store cannot be used: it renames by copying file after file, and readers would see a part
of a load.
"""

import contextlib
import errno
import fcntl
import os
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyklient.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["FileSystem", "HadoopFileSystem", "LocalFileSystem", "open_file_system"]

_LOCAL: Final = "file"
_HDFS: Final = "hdfs"
_TARGET_EXISTS: Final = (errno.EEXIST, errno.ENOTEMPTY)
_DELETED: Final = ".gone"


class FileSystem(Protocol):
    """Access to the directory of a data set. All names are relative to this directory, with ``/`` between
    their parts."""

    @property
    def root(self) -> str:
        """The directory as a URI, in the form that Spark reads: not percent-encoded, because Spark would take
        "%20" for a part of the name."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the files and folders in *folder*; an empty list if the folder does not
        exist."""

    def read(self, name: str) -> str | None:
        """Return the text of the file *name*; None if it does not exist."""

    def write(self, name: str, text: str) -> None:
        """Create the file *name* with the contents *text*."""

    def make_locked(self, folder: str) -> bool:
        """Create *folder* and lock it until this process ends. Return False if another process has already
        removed it."""

    def is_abandoned(self, folder: str) -> bool:
        """Return True if the process that locked *folder* is known to have ended."""

    def rename(self, folder: str, target: str) -> None:
        """Rename *folder*, which :meth:`make_locked` has created, to *target* in one step.

        Raises FileExistsError if *target* exists.
        """

    def remove(self, folder: str) -> None:
        """Delete *folder* and its contents. Do nothing if it does not exist."""


def open_file_system(spark: "SparkSession", path: str | os.PathLike[str]) -> FileSystem:
    """Return the file system of *path*, which is interpreted as Spark does.

    Raises ConfigurationError for a file system that cannot rename a directory in one step, and over Spark
    Connect, where the files of the server are out of reach.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ConfigurationError(
            "load() needs a Spark session in the driver, and cannot publish files over Spark Connect. Run it "
            "with spark-submit, or with a local master"
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
        if not self._is_locked(folder):
            # Spark's tasks create missing directories again: such a directory is not complete.
            raise FileNotFoundError(
                errno.ENOENT,
                "another process has removed the directory of the load",
                str(self._root / folder),
            )
        _flush(self._root / folder)
        try:
            # This fails if the target is not empty, and a published load never is.
            os.rename(self._root / folder, self._root / target)
        except OSError as error:
            if error.errno in _TARGET_EXISTS:
                raise FileExistsError(
                    errno.EEXIST, "another load is published in the directory", str(self._root / target)
                ) from error
            raise
        self._unlock(folder)
        _flush_directory(self._root)

    def remove(self, folder: str) -> None:
        path = self._root / folder
        gone = path
        if not folder.endswith(_DELETED):
            # Renaming first makes the removal one step, so that no process takes the rest for a whole load.
            # The new name is unique, because another process may be removing an earlier folder of that name.
            gone = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{_DELETED}")
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._unlock(folder)

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
    """A directory on HDFS, accessed with Hadoop's client in the driver's JVM."""

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
                    errno.EEXIST, "another load is published in the directory", f"{self.root}/{target}"
                ) from error
            raise

    def remove(self, folder: str) -> None:
        self._system.delete(self._path(folder), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root


def _flush(folder: Path) -> None:
    """Write everything in *folder* to the disk.

    Otherwise the new name of a directory might survive a power failure, but not the contents of its files.
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

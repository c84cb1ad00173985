"""The file systems that a data set can be on: a directory is renamed there in one step, and onto nothing.

That step is what makes a load visible. A local disk has it, and so has HDFS. Object stores have not: there a
"rename" copies file by file, and a reader sees half of it.
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

__all__ = ["Files", "HadoopFiles", "LocalFiles", "open_files"]

_LOCAL: Final = "file"
_HDFS: Final = "hdfs"
_TAKEN: Final = (errno.EEXIST, errno.ENOTEMPTY)
_GONE: Final = ".gone"


class Files(Protocol):
    """The directory of a data set. Names are relative to it, with ``/`` between their parts."""

    @property
    def root(self) -> str:
        """Where it is, as Spark takes it: file system and path. Nothing is percent-encoded, which
        to Spark would be another name."""

    def names(self, folder: str = "") -> list[str]:
        """What is in *folder*; nothing where there is none."""

    def read(self, name: str) -> str | None:
        """The text of a file; None where there is none."""

    def write(self, name: str, text: str) -> None:
        """Write a new file."""

    def claim(self, folder: str) -> bool:
        """Make *folder*, which is ours until this process ends; False if somebody has removed it already."""

    def abandoned(self, folder: str) -> bool:
        """Whether the process that has claimed *folder* is known to have ended."""

    def rename(self, folder: str, target: str) -> None:
        """Rename what :meth:`claim` has made, in one step. Raises FileExistsError if *target* is there."""

    def remove(self, folder: str) -> None:
        """Delete it with all that is in it, if it is there."""


def open_files(spark: "SparkSession", path: str | os.PathLike[str]) -> Files:
    """The directory *path*, as Spark understands it.

    Raises ConfigurationError for a file system that cannot publish a directory in one step, and for Spark
    Connect, whose server's files are out of reach.
    """
    jvm = getattr(spark, "_jvm", None)
    if jvm is None:
        raise ConfigurationError(
            "load() needs the driver's own Spark session: over Spark Connect it cannot publish files. Run it "
            "with spark-submit, or with a local master"
        )
    conf = spark._jsc.hadoopConfiguration()
    given = jvm.org.apache.hadoop.fs.Path(os.fspath(path))
    scheme = given.toUri().getScheme() or jvm.org.apache.hadoop.fs.FileSystem.getDefaultUri(conf).getScheme()
    if scheme not in (_LOCAL, _HDFS):
        raise ConfigurationError(
            f"{os.fspath(path)} is on file system {scheme!r}: a load is published by renaming a directory "
            f"in one step, which is relied on for {_LOCAL} and {_HDFS} alone (object stores copy file by "
            "file). Load into one of these, and copy finished loads from there"
        )
    system = given.getFileSystem(conf)
    whole = system.makeQualified(given)
    if scheme == _LOCAL:
        return LocalFiles(Path(whole.toUri().getPath()))
    return HadoopFiles(jvm, spark.sparkContext._gateway, system, whole)


class LocalFiles:
    """A directory on a disk of this machine, or on one that all machines have mounted."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._claims: dict[str, int] = {}

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

    def claim(self, folder: str) -> bool:
        # The system lets go of the lock when the process ends, however it does.
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
        self._claims[folder] = handle
        if self._is_ours(folder):
            return True
        self._let_go(folder)
        return False

    def abandoned(self, folder: str) -> bool:
        if folder.endswith(_GONE):
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
        if not self._is_ours(folder):
            # Tasks make missing directories again: what is there now is not all that was written.
            raise FileNotFoundError(errno.ENOENT, "somebody has removed it", str(self._root / folder))
        _flush(self._root / folder)
        try:
            # Onto a directory that is not empty this fails, and one that was published never is.
            os.rename(self._root / folder, self._root / target)
        except OSError as error:
            if error.errno in _TAKEN:
                raise FileExistsError(errno.EEXIST, "it is there", str(self._root / target)) from error
            raise
        self._let_go(folder)
        _flush_directory(self._root)

    def remove(self, folder: str) -> None:
        path = self._root / folder
        gone = path
        if not folder.endswith(_GONE):
            # In one step, so that nobody takes a part of it for the whole; and to a name of its own, for
            # another process may be removing what has stood here before.
            gone = path.with_name(f"{path.name}.{uuid.uuid4().hex[:8]}{_GONE}")
            with contextlib.suppress(FileNotFoundError):
                os.rename(path, gone)
        shutil.rmtree(gone, ignore_errors=True)
        self._let_go(folder)

    def _is_ours(self, folder: str) -> bool:
        handle = self._claims.get(folder)
        try:
            return handle is not None and os.path.samestat(os.fstat(handle), os.stat(self._root / folder))
        except FileNotFoundError:
            return False

    def _let_go(self, folder: str) -> None:
        handle = self._claims.pop(folder, None)
        if handle is not None:
            os.close(handle)


class HadoopFiles:
    """A directory on HDFS, through Hadoop's client in the driver's JVM."""

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

    def claim(self, folder: str) -> bool:
        return bool(self._system.mkdirs(self._path(folder)))

    def abandoned(self, folder: str) -> bool:
        return False

    def rename(self, folder: str, target: str) -> None:
        # FileSystem.rename would move it into a target that is there; FileContext's refuses.
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
                raise FileExistsError(errno.EEXIST, "it is there", f"{self.root}/{target}") from error
            raise

    def remove(self, folder: str) -> None:
        self._system.delete(self._path(folder), True)

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name) if name else self._root


def _flush(folder: Path) -> None:
    """Have everything in *folder* on the disk: after a power failure a directory's new name may outlive what
    was in its files."""
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

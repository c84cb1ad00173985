"""Archives of the classes that a JVM loads at its start (class data sharing, JEP 350).

A JVM that has one does not parse and verify these classes again. That saves a broker or a Spark driver about
40 % of the CPU time of its start, and the tests start many. An archive belongs to one class path and one
build of Java. A JVM whose archive is missing or does not fit loads the classes as usual.
"""

import hashlib
import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from tests.servers.programs import program

__all__ = ["archive_path", "java_build", "recording_option", "sharing_options", "spark_archive"]

# A JVM warns on its standard output, among what the programs print, if it cannot use the archive.
_WITHOUT_WARNINGS = ("-Xlog:disable", "-Xlog:all=error:stderr")


def archive_path(home: Path, java: str) -> Path:
    """Return the path of the archive in *home* for the program *java*."""
    return home / f"classes-{java_build(java)}.jsa"


def spark_archive(version: str) -> Path:
    """Return the path of the archive for drivers of PySpark *version*. It depends on where PySpark is
    installed, so it is kept in the virtual environment. Raises MissingProgramError."""
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else program("java")
    return archive_path(Path(sys.prefix) / "classes" / version, java)


def sharing_options(archive: Path) -> tuple[str, ...]:
    """Return the options of a JVM that takes its classes from *archive*; none if that does not exist."""
    return (f"-XX:SharedArchiveFile={archive}", *_WITHOUT_WARNINGS) if archive.exists() else ()


def recording_option(archive: Path) -> str:
    """Return the option of a JVM that writes *archive* when it ends."""
    return f"-XX:ArchiveClassesAtExit={archive}"


@lru_cache
def java_build(java: str) -> str:
    """Return a short text that differs between builds of Java."""
    ran = subprocess.run([java, "-version"], capture_output=True, timeout=60, check=True)
    return hashlib.sha256(ran.stderr).hexdigest()[:12]

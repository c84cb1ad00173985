"""Jars from Maven, once per machine: a runnable broker of every version, and Spark's own Kafka connector."""

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.programs import program

__all__ = ["VERSIONS", "FetchError", "cache", "connector_libs", "kafka_libs", "locked"]

_TIMEOUT = 600

_LOGGER = "org.slf4j:slf4j-simple:1.7.36"
_JAXB = "javax.xml.bind:jaxb-api:2.3.1"
_ARTIFACTS = {
    "4.3.1": ("org.apache.kafka:kafka_2.13:4.3.1", "org.apache.kafka:kafka-tools:4.3.1", _LOGGER),
    "3.9.1": ("org.apache.kafka:kafka_2.13:3.9.1", _LOGGER),
    "2.8.2": ("org.apache.kafka:kafka_2.13:2.8.2", _LOGGER),
    "1.1.1": ("org.apache.kafka:kafka_2.12:1.1.1", _LOGGER),
    "0.11.0.3": ("org.apache.kafka:kafka_2.12:0.11.0.3", _JAXB),
    "0.10.2.2": ("org.apache.kafka:kafka_2.12:0.10.2.2", _JAXB),
    "0.9.0.1": ("org.apache.kafka:kafka_2.11:0.9.0.1", _JAXB),
    "0.8.2.2": ("org.apache.kafka:kafka_2.11:0.8.2.2",),
}
"""The artifacts that each version needs to run. 3.9.1 includes ZooKeeper 3.8.4; 4.x has its command-line
tools in a separate jar. From 1.0 on no version includes a logger, without which a broker that does not start
gives no reason. 0.9 to 0.11 use a class that Java has no longer."""

VERSIONS = tuple(_ARTIFACTS)
"""The versions of Kafka that can be fetched."""

_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.0",
)
"""The artifacts that PySpark 4.0.0 needs for format("kafka") in addition to its own jars."""

_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>pyklient.tests</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"""


class FetchError(Exception):
    """Maven could not fetch the jars; the message ends with Maven's output."""


def kafka_libs(version: str) -> Path:
    """Return the directory with all jars of Kafka *version*, which are fetched into the cache if necessary
    (about ten seconds).

    The cache is ``$XDG_CACHE_HOME/pyklient/kafka/<version>``, by default under ``~/.cache``. Raises
    MissingProgramError without Maven, FetchError if Maven fails.
    """
    return _libs(cache() / "kafka" / version, _ARTIFACTS[version])


def connector_libs() -> Path:
    """Return the directory with the jars of Spark's own Kafka connector 4.0.0. Raises the errors of
    :func:`kafka_libs`."""
    return _libs(cache() / "spark-kafka" / "4.0.0", _CONNECTOR, "-DexcludeTransitive=true")


def _libs(home: Path, artifacts: Iterable[str], *options: str) -> Path:
    pom = _POM.format(
        dependencies="\n".join(_DEPENDENCY.format(*artifact.split(":")) for artifact in artifacts)
    )
    libs, complete = home / "libs", home / "complete.xml"
    if _reads(complete) == pom:
        return libs
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / "lock"):
        if _reads(complete) != pom:
            complete.unlink(missing_ok=True)
            _fetch(pom, libs, options)
            written = home / "complete.new"
            written.write_text(pom)
            written.replace(complete)
    return libs


def cache() -> Path:
    """Return the directory in which the tests keep what they have fetched."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pyklient"


def _reads(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let only one test run at a time fetch. The others wait for it and use what it has fetched."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(pom: str, libs: Path, options: Iterable[str]) -> None:
    maven = program("mvn")
    with tempfile.TemporaryDirectory(dir=libs.parent) as scratch:
        (Path(scratch) / "pom.xml").write_text(pom)
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={scratch}/libs", *options]
        command = [maven, "-q", "-B", *goal]
        try:
            ran = subprocess.run(
                command,
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=_TIMEOUT,
                stdin=subprocess.DEVNULL,
            )
        except subprocess.TimeoutExpired:
            raise FetchError(f"Maven did not fetch {libs.parent} within {_TIMEOUT} s") from None
        if ran.returncode != 0:
            said = (ran.stdout + ran.stderr).strip()[-2000:]
            raise FetchError(f"Maven could not fetch {libs.parent}; is its repository reachable?\n{said}")
        shutil.rmtree(libs, ignore_errors=True)
        (Path(scratch) / "libs").rename(libs)

"""The options of the JVM and the command line with which the tests run Java."""

from importlib.metadata import version
from pathlib import Path

from tests.servers.class_archive import archive_path, sharing_options, spark_archive
from tests.servers.java_sources import compiled
from tests.servers.programs import program

__all__ = ["QUICK_JVM", "SERVER_JVM", "classpath", "java_command", "spark_jvm"]

QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Options for a JVM that starts fast, uses little memory and leaves the cores to the tests."""

SERVER_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""The options that Kafka's own start script gives to the JVM, for brokers and tools."""


def classpath(libs: Path) -> str:
    """Return all jars of *libs* in the form that ``java -cp`` expects."""
    return f"{libs}/*"


def java_command(
    libs: Path,
    main: str,
    *arguments: str,
    heap: str = "384m",
    jvm: tuple[str, ...] = QUICK_JVM,
    options: tuple[str, ...] = (),
) -> list[str]:
    """Return the command line that runs class *main* (or a ``.java`` source) with the jars of *libs*.

    A source is compiled first, unless that has been done before.
    """
    java, path = program("java"), classpath(libs)
    if main.endswith(".java"):
        # The jars come first: they are those of the archive.
        path, main = f"{path}:{compiled(Path(main), libs, java, QUICK_JVM)}", Path(main).stem
    tuning = (
        f"-Xmx{heap}",
        *jvm,
        *sharing_options(archive_path(libs.parent, java)),
        "-Djava.awt.headless=true",
    )
    return [java, *tuning, *options, "-cp", path, main, *arguments]


def spark_jvm() -> str:
    """Return the options for the JVMs of Spark, for the PySpark that this process imports."""
    return " ".join((*QUICK_JVM, *sharing_options(spark_archive(version("pyspark")))))

"""Programs that the tests need and do not bring: found, or an error that says how to get them."""

import shutil
from pathlib import Path

__all__ = ["QUICK_JVM", "SERVER_JVM", "MissingProgramError", "classpath", "java_command", "program"]

QUICK_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""Starts fast, stays small and leaves the cores to the tests."""

SERVER_JVM = (
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""What Kafka's own start script asks of the JVM, for brokers and tools."""

_PACKAGES = {
    "java": "a JDK, 17 or newer (Debian: apt-get install default-jdk-headless; macOS: brew install openjdk)",
    "mvn": "Maven, which fetches Kafka's jars (Debian: apt-get install maven; macOS: brew install maven)",
    "jlink": "a JDK with jlink and jmods (Debian: apt-get install default-jdk-headless)",
    "busybox": "busybox (Debian: apt-get install busybox-static)",
    "docker": "Docker's client (Debian: apt-get install docker.io; macOS: Docker Desktop)",
}


class MissingProgramError(Exception):
    """A program that the tests cannot do without is not installed. Never a reason to skip them."""


def program(name: str) -> str:
    """The path of program *name*. Raises MissingProgramError that says what to install."""
    path = shutil.which(name)
    if path is None:
        raise MissingProgramError(f"{name} is not on the PATH; these tests need {_PACKAGES[name]}")
    return path


def classpath(libs: Path) -> str:
    """Every jar of *libs*, as ``java -cp`` takes it."""
    return f"{libs}/*"


def java_command(
    libs: Path,
    main: str,
    *arguments: str,
    heap: str = "384m",
    jvm: tuple[str, ...] = QUICK_JVM,
    options: tuple[str, ...] = (),
) -> list[str]:
    """The command line that runs class *main* (or a ``.java`` source) with the jars of *libs*."""
    tuning = (f"-Xmx{heap}", *jvm, "-Xshare:auto", "-Djava.awt.headless=true")
    return [program("java"), *tuning, *options, "-cp", classpath(libs), main, *arguments]

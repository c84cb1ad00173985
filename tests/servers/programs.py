"""Programs that the tests need and that are not part of them: their paths, or an error that says how to
install them."""

import shutil

__all__ = ["MissingProgramError", "program"]

_PACKAGES = {
    "java": "a JDK, 17 or newer (Debian: apt-get install default-jdk-headless; macOS: brew install openjdk)",
    "mvn": "Maven, which fetches Kafka's jars (Debian: apt-get install maven; macOS: brew install maven)",
    "jlink": "a JDK with jlink and jmods (Debian: apt-get install default-jdk-headless)",
    "busybox": "busybox (Debian: apt-get install busybox-static)",
    "initdb": "PostgreSQL's server (Debian: apt-get install postgresql; macOS: brew install postgresql)",
    "postgres": "PostgreSQL's server (Debian: apt-get install postgresql; macOS: brew install postgresql)",
    "setpriv": "util-linux (Debian: apt-get install util-linux)",
    "docker": "Docker's client (Debian: apt-get install docker.io; macOS: Docker Desktop)",
}


class MissingProgramError(Exception):
    """A program that the tests need is not installed. This is never a reason to skip a test."""


def program(name: str) -> str:
    """Return the path of program *name*. Raises MissingProgramError, which says what to install."""
    path = shutil.which(name)
    if path is None:
        raise MissingProgramError(f"{name} is not on the PATH; these tests need {_PACKAGES[name]}")
    return path

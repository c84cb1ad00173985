"""Describes the machine on which the figures are measured, and chooses where its brokers store records."""

import functools
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Final

from tests.servers.memory_folder import memory_folder
from tests.servers.programs import program

__all__ = ["facts", "records_folder", "version"]

_NEEDED: Final = 8 * 2**30
"""The bytes of memory that must be free to store records there. The records of a scenario are deleted after
it."""

_DISTRIBUTIONS = {
    "own": "pyklient",
    "confluent": "confluent-kafka",
    "aio_kafka": "aiokafka",
    "kafka_python": "kafka-python",
}


def version(client: str) -> str:
    """Return the name and version of the package of *client*."""
    name = _DISTRIBUTIONS[client]
    return f"{name} {importlib.metadata.version(name)}"


def facts() -> list[str]:
    """Return one line each on processor and memory, the system and its versions, and the brokers' disk."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return [
        f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB, for client and broker together",
        f"{platform.system()} {platform.release()}, {platform.python_implementation()} "
        f"{platform.python_version()}, {_java()}",
        "the brokers store records "
        + (
            "on the disk"
            if records_folder() is None
            else "in memory (tmpfs), so that no client waits for a disk"
        ),
    ]


@functools.cache
def records_folder() -> Path | None:
    """Return the folder in memory in which brokers store their records. Return None if they store records on
    the disk. The answer stays the same when records fill the memory."""
    return memory_folder(_NEEDED)


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _java() -> str:
    said = subprocess.run(
        [program("java"), "-version"], capture_output=True, text=True, timeout=30, check=True
    )
    return said.stderr.splitlines()[0].replace('"', "")

"""Finds the processes of Spark on this machine."""

import subprocess
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Process", "descendants"]


class Process(NamedTuple):
    """One process, and the commands of the processes above it, the nearest first."""

    pid: int
    command: str
    above: tuple[str, ...]


def descendants(pid: int) -> Iterator[Process]:
    """Yield all descendants of process *pid*."""
    told = subprocess.run(
        ["ps", "-axww", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True, timeout=10
    )
    children: dict[int, list[tuple[int, str]]] = {}
    for line in told.stdout.splitlines():
        child, parent, *command = line.split(maxsplit=2)
        children.setdefault(int(parent), []).append((int(child), " ".join(command)))
    waiting: list[tuple[int, tuple[str, ...]]] = [(pid, ())]
    while waiting:
        parent_pid, above = waiting.pop()
        for child_pid, text in children.get(parent_pid, ()):
            yield Process(child_pid, text, above)
            waiting.append((child_pid, (text, *above)))

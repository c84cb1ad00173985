"""A run of a program in ``tools/``: it starts servers, chooses at random by a seed, and reports problems."""

import random
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tests.servers.server import Server

__all__ = ["SeededRun", "StartedServer", "add_seed", "kraft_cluster"]

_MOST_SHOWN = 20

_SMALL_INDEXES = {"log.index.size.max.bytes": 256 * 1024}
"""A setting of brokers. Kafka maps each index of a partition into memory in its full size, 10 MiB by default.
On some file systems, the first write to an index takes a time in proportion to this size. The partitions of a
run get their first index entries at about the same time, and brokers then answered nothing for 10 s, as if
the clients under test were slow."""

StartedServer = TypeVar("StartedServer", bound=Server)


def add_seed(parser: ArgumentParser) -> None:
    """Add the option ``--seed`` to *parser*."""
    parser.add_argument("--seed", type=int, help="of an earlier run, to make the same choices")


def kraft_cluster(brokers: int) -> Callable[[Path, Reaper], KraftCluster]:
    """Return a function that makes a cluster of *brokers* real brokers, for :meth:`SeededRun.server`."""
    return lambda directory, reaper: KraftCluster(directory, reaper, brokers=brokers, settings=_SMALL_INDEXES)


class SeededRun:
    """A run with *seed*, or with a new seed if that is None. It prints the seed when it begins."""

    def __init__(self, seed: int | None) -> None:
        self.seed = random.SystemRandom().randrange(1_000_000) if seed is None else seed
        self._began = time.monotonic()
        print(f"seed {self.seed}", flush=True)

    def say(self, line: str) -> None:
        """Print *line* with the seconds since the run began."""
        print(f"{time.monotonic() - self._began:6.1f} s  {line}", flush=True)

    @contextmanager
    def server(self, make: Callable[[Path, Reaper], StartedServer]) -> Iterator[StartedServer]:
        """Start the broker or cluster that *make* returns, and stop it at the end.

        Its files are in a temporary directory, which is deleted. If this process is killed, the reaper ends
        the servers.
        """
        with tempfile.TemporaryDirectory(prefix="pyklient-run-", ignore_cleanup_errors=True) as directory:
            reaper = Reaper()
            started = make(Path(directory) / "servers", reaper)
            try:
                started.start()
                yield started
            finally:
                started.stop()
                reaper.close()

    def end(self, problems: Collection[str]) -> NoReturn:
        """Print the first of *problems* and their number, and exit. The exit status is 0 if there are
        none."""
        for problem in list(problems)[:_MOST_SHOWN]:
            print(problem)
        print(f"seed {self.seed}: {len(problems)} problems")
        sys.exit(bool(problems))

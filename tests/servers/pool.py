"""The servers of one test process: each is started shortly before its first test, and stopped after its last
one."""

import itertools
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from tests.servers.kinds import KINDS
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tests.servers.server import ExternalKafka, Server

__all__ = ["SERVERS", "ExternalKafka", "Served", "Server", "ServerPool", "Use"]

_Kind = TypeVar("_Kind")
_Lent = TypeVar("_Lent")

_CHEAP = "reference"


@dataclass(frozen=True)
class Use:
    """A test, by its node id, and the names of the servers that it uses."""

    test: str
    servers: tuple[str, ...]


@dataclass
class Served:
    """The time that a server took to start, and the time that it ran, in seconds."""

    name: str
    start: float
    ran: float


@dataclass
class _Running:
    stop: Callable[[], None]
    began: float
    start: float


@dataclass
class _Server(_Running):
    server: Server


SERVERS = pytest.StashKey["ServerPool"]()
"""The pool of the process, when a test has used it."""


class ServerPool:
    """All servers by name.

    *uses* are the tests that this process will run, in this order. ``before`` and ``after`` are called around
    each of them: they start servers ahead and stop those that no later test uses. pyklient's own broker stays
    until the end: it costs nothing, and tests that are not among *uses* may ask for it.

    The servers' files are in *directory*, which is deleted when the pool is closed.
    """

    def __init__(self, directory: Path, uses: Sequence[Use] = ()) -> None:
        self._directory = directory
        self._soon = _soon(uses)
        self._last = {name: use.test for use in uses for name in use.servers if name != _CHEAP}
        self._reaper = Reaper()
        self._reaper.delete_at_end(directory)
        self._executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="start-server")
        self._starting: dict[str, Future[_Server]] = {}
        self._lent: dict[str, _Running] = {}
        self._stopping: list[Future[None]] = []
        self._made: list[tuple[str, Server]] = []
        self._before_test = 0
        self._serial = itertools.count(1)
        self.served: list[Served] = []

    def before(self, test: str) -> None:
        """Start the servers of *test* and, in the background, the server that is needed next."""
        self._before_test = len(self._made)
        for name in self._soon.get(test, ()):
            self._prepare(name)

    def after(self, test: str) -> None:
        """Stop the servers that no test after *test* uses, in the background."""
        for name in [name for name, last in self._last.items() if last == test]:
            if (starting := self._starting.pop(name, None)) is not None:
                self._stopping.append(self._executor.submit(self._stop, name, starting))
            if (lent := self._lent.pop(name, None)) is not None:
                self._end(name, lent)

    def get(self, name: str) -> Server:
        """Return server *name*, which is started if necessary. If it could not be started, raise that error
        in each call."""
        return self._prepare(name).result(timeout=300).server

    def get_as(self, kind: type[_Kind], name: str) -> _Kind:
        """Return server *name*, as :meth:`get` does, which is of the class *kind*."""
        server = self.get(name)
        assert isinstance(server, kind), f"{name} is a {type(server).__name__}"
        return server

    def lend(self, name: str, start: Callable[[], _Lent], stop: Callable[[_Lent], None]) -> _Lent:
        """Return the result of *start*. The thread of the tests must call *start* and *stop*, as for
        Spark."""
        began = time.monotonic()
        lent = start()
        self._lent[name] = _Running(lambda: stop(lent), began, time.monotonic() - began)
        return lent

    def start_reference(self, settings: Mapping[str, object]) -> ReferenceBroker:
        """Return another reference broker, with its own settings, which the caller must stop."""
        broker = ReferenceBroker(self._home("reference"), self._reaper, settings)
        self._made.append((_CHEAP, broker))
        broker.start()
        return broker

    def logs(self, names: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield the end of the logs of the servers with these *names*, and of those that were made since the
        last test began."""
        for number, (name, server) in enumerate(self._made):
            if name in names or number >= self._before_test:
                yield from server.logs().items()

    def close(self) -> None:
        """Stop everything. Raise the errors that occurred while servers were stopped."""
        for starting in self._starting.values():
            starting.cancel()  # a server that no test has waited for; stops are not cancelled
        self._executor.shutdown(wait=True)
        for name, lent in self._lent.items():
            self._end(name, lent)
        for name, starting in self._starting.items():
            if not starting.cancelled() and starting.exception() is None:
                self._end(name, starting.result())
        self._lent.clear()
        self._starting.clear()
        for _, server in self._made:
            server.stop()
        shutil.rmtree(self._directory, ignore_errors=True)  # the reaper, which waits less, deletes any rest
        self._reaper.close()
        for stopping in self._stopping:
            stopping.result()

    def _prepare(self, name: str) -> Future[_Server]:
        if name not in self._starting:
            self._starting[name] = self._executor.submit(self._start, name)
        return self._starting[name]

    def _start(self, name: str) -> _Server:
        began = time.monotonic()
        server = KINDS[name].make(self._home(name), self._reaper)
        self._made.append((name, server))
        server.start()
        return _Server(server.stop, began, time.monotonic() - began, server)

    def _stop(self, name: str, starting: Future[_Server]) -> None:
        if starting.exception() is None:
            self._end(name, starting.result())

    def _end(self, name: str, running: _Running) -> None:
        running.stop()
        self.served.append(Served(name, running.start, time.monotonic() - running.began))

    def _home(self, name: str) -> Path:
        return self._directory / f"{name}-{next(self._serial)}"


def _soon(uses: Sequence[Use]) -> dict[str, tuple[str, ...]]:
    """Return the servers that run, or start, during each test: its own servers, and the next other one."""
    found: dict[str, tuple[str, ...]] = {}
    ahead: list[str] = []  # servers of later tests, the nearest first
    for use in reversed(uses):
        own = [name for name in use.servers if name in KINDS]
        found[use.test] = (*own, *[name for name in ahead if name not in own][:1])
        ahead = [name for name in own if name != _CHEAP] + [name for name in ahead if name not in own]
    return found

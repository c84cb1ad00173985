"""Looks up the addresses of host names in separate threads, because the system's function has no time-out.

Callers that ask for the same name share one lookup, so that each name occupies at most one thread, even if
its lookup hangs. If a new lookup takes too long, the addresses that were found before are used. If no thread
can be started (because of a limit, or at the end of the program), the calling thread does the lookup.

Each process has one Resolver. Its threads end when there is nothing to look up.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from pyklient.errors import KafkaTimeoutError

__all__ = ["Address", "Resolver", "SlowLookupError", "resolve"]

Address: TypeAlias = tuple[int, int, int, tuple[object, ...]]
"""The values that are needed to connect a socket: its family, type and protocol, and the address."""

_MOST_THREADS: Final = 8
_MOST_KNOWN: Final = 1_000
_FAIR_SHARE: Final = 0.5


class SlowLookupError(Exception):
    """The lookup of a host name took too long. The text says which lookup, and how long."""


class _Lookup:
    """One call of the system's function that looks up a host name, and its result."""

    __slots__ = ("came_back", "error", "found", "host")

    def __init__(self, host: str) -> None:
        self.host = host
        self.came_back = threading.Event()
        self.found: list[Address] = []
        self.error: Exception | None = None


class Resolver:
    """Looks up host names, with at most *most_threads* threads. Safe to use from several threads."""

    def __init__(self, most_threads: int = _MOST_THREADS) -> None:
        self._most_threads = most_threads
        self._lookups: dict[str, _Lookup] = {}
        self._queue: SimpleQueue[_Lookup] = SimpleQueue()
        self._idle: SimpleQueue[None] = SimpleQueue()
        """A queue of permits to start a thread: one item for each thread that may still be started."""
        for _ in range(most_threads):
            self._idle.put(None)
        self._running: set[str] = set()
        self._known: dict[str, list[Address]] = {}

    def resolve(self, host: str, port: int, time_left: Callable[[], float], timeout: float) -> list[Address]:
        """Look up *host* within *timeout* seconds. Return its addresses, each with *port*.

        *time_left* returns how many seconds the next wait may last, and raises an error if the caller must
        not wait any longer. Raises SlowLookupError if no address is found within *timeout*, or if *time_left*
        raises a KafkaTimeoutError. Raises any other error of *time_left*, and the errors of the system's
        function (OSError, UnicodeError).
        """
        literal = _literal(host)
        found = [literal] if literal is not None else self._found(host, time_left, timeout)
        return [(family, kind, protocol, (at[0], port, *at[2:])) for family, kind, protocol, at in found]

    def _found(self, host: str, time_left: Callable[[], float], timeout: float) -> list[Address]:
        began = time.monotonic()
        lookup, known, is_worker = self._begin(host)
        if is_worker:
            self._run()
        give_up = began + (timeout * _FAIR_SHARE if known else timeout)
        try:
            while not lookup.came_back.wait(min(time_left(), max(give_up - time.monotonic(), 0.001))):
                if time.monotonic() >= give_up:
                    break
        except KafkaTimeoutError as error:
            raise self._late(host, began) from error
        if lookup.error is not None:
            raise lookup.error
        if lookup.found:
            return lookup.found
        if known:
            return known
        raise self._late(host, began)

    def _begin(self, host: str) -> tuple[_Lookup, list[Address], bool]:
        """Return the lookup of *host*, the addresses that its earlier lookups found, and whether the caller
        must do the lookup.

        If no lookup of *host* is under way, begins one. If the third value is True, no thread can be started,
        and the caller must call ``_run``.
        """
        mine = _Lookup(host)
        lookup = self._lookups.setdefault(host, mine)
        is_worker = False
        if lookup is mine:
            self._queue.put(mine)
            is_worker = self._pop_idle() and not self._start_thread() and self._is_alone()
        return lookup, self._known.get(host, []), is_worker

    def _pop_idle(self) -> bool:
        """Take a permit from ``_idle``. Return False if there is none. A caller with a permit may start one
        thread, which puts the permit back when it ends."""
        try:
            self._idle.get_nowait()
        except Empty:
            return False
        return True

    def _start_thread(self) -> bool:
        """Start another thread that looks up host names. Return False if no thread can be started."""
        try:
            threading.Thread(target=self._run, name="pyklient-resolver", daemon=True).start()
        except RuntimeError:
            return False
        return True

    def _is_alone(self) -> bool:
        """Return True if no other thread runs lookups, so that this thread must do the new lookup itself.

        Otherwise, put the permit to start a thread back into ``_idle``, and return False: a running thread
        will do the lookup.
        """
        if self._idle.qsize() == self._most_threads - 1:
            return True
        self._idle.put(None)
        return False

    def _run(self) -> None:
        """Do the lookups in the queue until it is empty."""
        while True:
            try:
                lookup = self._queue.get_nowait()
            except Empty:
                self._idle.put(None)
                # A lookup that came in between has found no idle thread.
                if self._queue.empty() or not self._pop_idle():
                    return
                continue
            self._running.add(lookup.host)
            try:
                found = socket.getaddrinfo(lookup.host, None, type=socket.SOCK_STREAM)
                lookup.found = [
                    (int(family), int(kind), protocol, at) for family, kind, protocol, _, at in found
                ]
            except Exception as error:
                lookup.error = error
            self._running.discard(lookup.host)
            self._remember(lookup)
            del self._lookups[lookup.host]
            lookup.came_back.set()

    def _remember(self, lookup: _Lookup) -> None:
        if lookup.found:
            self._known.pop(lookup.host, None)
            self._known[lookup.host] = lookup.found
            for oldest in list(self._known)[:-_MOST_KNOWN]:
                self._known.pop(oldest, None)

    def _late(self, host: str, began: float) -> SlowLookupError:
        running = sorted(self._running)
        waited = f"within {time.monotonic() - began:.2g} s"
        if host in running:
            return SlowLookupError(f"the addresses of {host} were not found {waited}")
        others = f", because lookups of other names hang: {', '.join(running)}" if running else ""
        return SlowLookupError(f"the lookup of {host} did not begin {waited}{others}")


def _literal(host: str) -> Address | None:
    """Return *host* as an address if it is an IP address, which needs no lookup; otherwise None."""
    for family, at in ((socket.AF_INET, (host, 0)), (socket.AF_INET6, (host, 0, 0, 0))):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return int(family), int(socket.SOCK_STREAM), socket.IPPROTO_TCP, at
    return None


_resolver = Resolver()


def resolve(host: str, port: int, time_left: Callable[[], float], timeout: float) -> list[Address]:
    """Return the addresses of *host*, found by the Resolver of this process. See ``Resolver.resolve``."""
    return _resolver.resolve(host, port, time_left, timeout)


def _renew() -> None:
    """Replace the Resolver in a child process after a fork, because its threads exist only in the parent
    process."""
    global _resolver
    _resolver = Resolver()


os.register_at_fork(after_in_child=_renew)

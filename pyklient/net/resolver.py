"""Looks up the addresses of host names, in threads of its own: the system's function has no time-out.

A lookup that does not come back is not begun again: whoever asks for the same name waits for the same one. So
names that cannot be looked up occupy few threads, however often they are asked for. Addresses that were found
before serve again while a new lookup takes its time. Where no thread can be started (a limit of the system,
the end of the program), the thread that asks does the lookup, for as long as that takes.

There is one Resolver for the process. Its threads end when they have nothing left to look up.
"""

import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from pyklient.errors import KafkaTimeoutError

__all__ = ["Address", "Resolver", "SlowLookupError", "resolve"]

Address: TypeAlias = tuple[int, int, int, tuple[object, ...]]
"""Family, kind and protocol of a socket, and what it connects to."""

_MOST_THREADS: Final = 8
_MOST_KNOWN: Final = 1_000
_FAIR_SHARE: Final = 0.5


class SlowLookupError(Exception):
    """The time was up before a lookup came back. Its text ends a sentence about the host."""


class _Lookup:
    """One call of the system's function, and what came of it."""

    __slots__ = ("came_back", "error", "found", "host")

    def __init__(self, host: str) -> None:
        self.host = host
        self.came_back = threading.Event()
        self.found: list[Address] = []
        self.error: Exception | None = None


class Resolver:
    """Safe to use from several threads; *most_threads* lookups run at a time."""

    def __init__(self, most_threads: int = _MOST_THREADS) -> None:
        self._most_threads = most_threads
        self._lock = threading.Lock()
        self._lookups: dict[str, _Lookup] = {}
        self._queue: deque[_Lookup] = deque()
        self._running: set[str] = set()
        self._threads = 0
        self._known: dict[str, list[Address]] = {}

    def resolve(self, host: str, port: int, patience: Callable[[], float], timeout: float) -> list[Address]:
        """The addresses of *host* with *port* in them, in *timeout* seconds at most.

        *patience* says how long the next wait may be; a KafkaTimeoutError of it means that time is up.
        Raises SlowLookupError then, what the system's function raises (OSError or UnicodeError), and what
        else *patience* raises.
        """
        literal = _literal(host)
        found = [literal] if literal is not None else self._found(host, patience, timeout)
        return [(family, kind, protocol, (at[0], port, *at[2:])) for family, kind, protocol, at in found]

    def _found(self, host: str, patience: Callable[[], float], timeout: float) -> list[Address]:
        began = time.monotonic()
        lookup, known, is_worker = self._begin(host)
        if is_worker:
            self._run()
        give_up = began + (timeout * _FAIR_SHARE if known else timeout)
        try:
            while not lookup.came_back.wait(min(patience(), max(give_up - time.monotonic(), 0.001))):
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
        """Return the lookup under way for *host*, begun if there is none; the addresses found before; True
        if the caller has to ``_run`` because there is no thread that does."""
        is_worker = False
        with self._lock:
            lookup = self._lookups.get(host)
            if lookup is None:
                lookup = _Lookup(host)
                if self._threads < self._most_threads:
                    is_worker = not self._start_thread() and not self._threads
                    self._threads += is_worker
                self._lookups[host] = lookup
                self._queue.append(lookup)
            return lookup, self._known.get(host, []), is_worker

    def _start_thread(self) -> bool:
        """Return False if no thread can be started."""
        try:
            threading.Thread(target=self._run, name="pyklient-resolver", daemon=True).start()
        except RuntimeError:
            return False
        self._threads += 1
        return True

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                lookup = self._queue.popleft()
                self._running.add(lookup.host)
            try:
                found = socket.getaddrinfo(lookup.host, None, type=socket.SOCK_STREAM)
                lookup.found = [
                    (int(family), int(kind), protocol, at) for family, kind, protocol, _, at in found
                ]
            except Exception as error:
                lookup.error = error
            with self._lock:
                self._running.discard(lookup.host)
                self._finish(lookup)
            lookup.came_back.set()

    def _finish(self, lookup: _Lookup) -> None:
        del self._lookups[lookup.host]
        if lookup.found:
            self._known.pop(lookup.host, None)
            self._known[lookup.host] = lookup.found
            if len(self._known) > _MOST_KNOWN:
                del self._known[next(iter(self._known))]

    def _late(self, host: str, began: float) -> SlowLookupError:
        with self._lock:
            running = sorted(self._running)
        waited = f"within {time.monotonic() - began:.2g} s"
        if host in running:
            return SlowLookupError(f"its addresses were not found {waited}")
        return SlowLookupError(
            f"its addresses were not looked up {waited}, because lookups of other names do not come back: "
            + ", ".join(running)
        )


def _literal(host: str) -> Address | None:
    """*host* if it is an address itself, which needs no lookup."""
    for family, at in ((socket.AF_INET, (host, 0)), (socket.AF_INET6, (host, 0, 0, 0))):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return int(family), int(socket.SOCK_STREAM), socket.IPPROTO_TCP, at
    return None


_resolver = Resolver()


def resolve(host: str, port: int, patience: Callable[[], float], timeout: float) -> list[Address]:
    """``Resolver.resolve`` of the process's resolver."""
    return _resolver.resolve(host, port, patience, timeout)


def _renew() -> None:
    """In the child of a fork: the threads are the parent's, and one of them may have held the lock."""
    global _resolver
    _resolver = Resolver()


os.register_at_fork(after_in_child=_renew)

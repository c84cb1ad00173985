"""Runs a function in a child process after a fork."""

import contextlib
import os
import socket
import stat
import traceback
from collections.abc import Callable, Collection

__all__ = ["in_child", "open_sockets"]


def in_child(check: Callable[[], object]) -> None:
    """Run *check* in a forked child process. Raise AssertionError, with the traceback, if it fails there."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = traceback_of(check)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        said = answer.read().decode()
    os.waitpid(child, 0)
    assert said == "ok", said


def traceback_of(check: Callable[[], object]) -> str:
    """Return the traceback of *check*, or ``ok``."""
    try:
        check()
    except BaseException:
        return traceback.format_exc()
    return "ok"


def open_sockets(ports: Collection[int]) -> list[int]:
    """Return the file descriptors of this process that are connected to one of *ports*."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it is closed meanwhile, or not connected
            number = int(name)
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as copy:
                peer = copy.getpeername()
            if isinstance(peer, tuple) and peer[1] in ports:
                found.append(number)
    return found

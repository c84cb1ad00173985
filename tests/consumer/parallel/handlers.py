"""Handlers that a worker process can import."""

import os
import signal
import time
from pathlib import Path

from pyklient import Message

__all__ = ["die", "fail", "fail_strangely", "hang", "stop_all", "write_pid"]


def write_pid(message: Message) -> None:
    """Append the message and the id of this process to the file that the message names."""
    assert message.value is not None
    path, text = message.value.decode().split(" ")
    with open(path, "a") as file:
        file.write(f"{os.getpid()} {text}\n")


def fail(message: Message) -> None:
    """Raise an exception."""
    raise LookupError(f"no account {message.value!r}")


class StrangeError(Exception):
    """An exception that can be pickled, but not restored."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one + two)


def fail_strangely(message: Message) -> None:
    """Raise an exception that cannot come back from another process."""
    raise StrangeError("strange ", str(message.value))


def die(message: Message) -> None:
    """End the process, unless the message says that it must not."""
    if message.value == b"die":
        os._exit(3)


def stop_all(message: Message) -> None:
    """Send the signals of a terminal and of a platform that stop all processes, and then note the end."""
    os.kill(os.getpid(), signal.SIGINT)
    os.kill(os.getpid(), signal.SIGTERM)
    write_pid(message)


def hang(message: Message) -> None:
    """Create the file that the message names, and do not return."""
    assert message.value is not None
    Path(message.value.decode()).touch()
    time.sleep(600)

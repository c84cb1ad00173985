"""Handlers that a worker process can import."""

import os

from pyklient import Message

__all__ = ["die", "fail", "fail_strangely", "write_pid"]


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

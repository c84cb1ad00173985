"""The ids of a group's consumers and of their threads, in the form of Scala's high-level consumer.

A *thread* stands for one stream of a consumer: the partitions of a topic are assigned to threads. The thread
of the i-th stream of a topic is called ``<consumer id>-<i>``.
"""

import socket
import time
import uuid
from typing import NamedTuple

__all__ = ["ThreadId", "java_order", "new_consumer_id"]


class ThreadId(NamedTuple):
    """The id of the thread that stands for one stream of a consumer. Streams are numbered from 0."""

    consumer_id: str
    stream: int

    def __str__(self) -> str:
        return f"{self.consumer_id}-{self.stream}"


def new_consumer_id(group_id: str, consumer_id: str | None = None) -> str:
    """Return the id under which a consumer is a member of group *group_id*.

    The id contains *consumer_id*, the option of this name, if it is given. Otherwise the id contains the
    host's name, the time in milliseconds and eight random hexadecimal digits.
    """
    if consumer_id is None:
        random_digits = f"{uuid.uuid4().int >> 64:x}"[:8]
        consumer_id = f"{socket.gethostname()}-{time.time_ns() // 1_000_000}-{random_digits}"
    return f"{group_id}_{consumer_id}"


def java_order(text: object) -> bytes:
    """Return a key that sorts texts as Java compares strings: by their UTF-16 units."""
    return str(text).encode("utf-16-be", "surrogatepass")

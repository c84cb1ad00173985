"""Requests to ZooKeeper, as data: a dialogue yields them and is resumed with the answers.

``ZooKeeper.play`` runs a dialogue in the calling thread. A test runs the same dialogue with a list of
answers. Paths begin with a slash and are relative to the chroot.

::

    def first_broker() -> RegistryDialogue[bytes | None]:
        for child in (yield Children("/brokers/ids", watch=True)) or ():
            node = yield Read(f"/brokers/ids/{child}")
            if node is not None:
                return node.content
        return None

A dialogue that asks for many nodes asks for them together, so that it does not wait for one answer after the
other: ``nodes = yield from all_answers([Read(path) for path in paths])``.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from pyklient.errors import KafkaError

__all__ = [
    "Children",
    "Create",
    "Delete",
    "Node",
    "Read",
    "RegistryDialogue",
    "RegistryPause",
    "RegistryRequest",
    "Together",
    "Write",
    "all_answers",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """The answer to a Read: the content of a node.

    ``version`` counts the writes to the node. An ``ephemeral`` node ends with the session that created it.
    ``mine`` is true if the client that asks has that session now. ZooKeeper numbers all changes in their
    order: ``created`` is the number of the node's creation, and ``written`` that of the last write to it.
    """

    content: bytes
    version: int = 0
    ephemeral: bool = False
    mine: bool = False
    created: int = field(default=0, compare=False)
    written: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """Read the node at *path*; the dialogue is resumed with a Node, or None if there is no node.

    With *watch*, the client is told when the node is written or deleted next, or created if there is none
    yet. If *may_come* is false, a node that does not exist is not watched. This is for nodes that will never
    exist again, such as the node of a member that has left: its watch would stay until the session ends.
    """

    path: str
    watch: bool = False
    may_come: bool = True


@dataclass(frozen=True, slots=True)
class Children:
    """List the children of *path*; the dialogue is resumed with their sorted names, or None if there is no
    node.

    With *watch*, the client is told when a child is created or deleted next, or when *path* itself is
    created.
    """

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Create the node at *path*, and its parents if they are missing; the dialogue is resumed with None.

    Raises NodeExistsError inside the dialogue if the node exists.
    """

    path: str
    content: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """Replace the content of the node at *path*; the dialogue is resumed with the new version of the node.

    Raises NodeVersionError if the node has another version than *version*; -1 stands for any version. Raises
    NoNodeError if there is no node.
    """

    path: str
    content: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the node at *path*; the dialogue is resumed with True, or with False if there was no node.

    With *children*, the nodes below *path* are deleted too. Raises NodeVersionError if the node has another
    version than *version*; -1 stands for any version.
    """

    path: str
    version: int = -1
    children: bool = False


@dataclass(frozen=True, slots=True)
class RegistryPause:
    """A pause of a dialogue: the dialogue is resumed with None after *seconds*."""

    seconds: float


RegistryRequest: TypeAlias = Read | Children | Create | Write | Delete


@dataclass(frozen=True, slots=True)
class Together:
    """Requests that are sent together; the dialogue is resumed with a list of their answers, in the same
    order.

    The answer to a request that ZooKeeper rejects, such as the creation of a node that exists, is its
    KafkaError. The requests are independent: some may be carried out although others are rejected. Raises
    RegistryConnectionError, SessionExpiredError or KafkaTimeoutError if an answer does not come.
    """

    requests: tuple[RegistryRequest, ...]


RegistryDialogue: TypeAlias = Generator[RegistryRequest | Together | RegistryPause, Any, T]


def all_answers(requests: Iterable[RegistryRequest]) -> RegistryDialogue[list[Any]]:
    """Send *requests* together, and return their answers. Raise the first error among the answers."""
    asked = tuple(requests)
    answers: list[Any] = (yield Together(asked)) if asked else []
    for each in answers:
        if isinstance(each, KafkaError):
            raise each
    return answers

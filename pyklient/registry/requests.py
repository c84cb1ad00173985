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
    """A ZooKeeper node: the answer to a Read request.

    ``version`` counts the writes to the node. An ``ephemeral`` node is deleted when the session that created
    it ends. ``mine`` is true if the reading client's present session created the node. ZooKeeper numbers all
    changes: ``created`` and ``written`` are the numbers of the node's creation and of the last write to it.
    """

    content: bytes
    version: int = 0
    ephemeral: bool = False
    mine: bool = False
    created: int = field(default=0, compare=False)
    written: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Read:
    """A request to read the node at *path*. The dialogue is resumed with a Node, or with None if the node
    does not exist.

    With *watch*, the client is notified of the next change of the node: when it is written, deleted or
    created. If *may_come* is false, a missing node is not watched. A dialogue sets it to false for nodes that
    will never exist again, such as the node of a member that has left: the watch would last until the session
    ends.
    """

    path: str
    watch: bool = False
    may_come: bool = True


@dataclass(frozen=True, slots=True)
class Children:
    """A request to list the children of *path*. The dialogue is resumed with their sorted names, or with None
    if the node does not exist.

    With *watch*, the client is notified when a child is created or deleted, or when the missing node is
    created.
    """

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """A request to create the node at *path*, and its parents if they are missing. The dialogue is resumed
    with None.

    If the node exists, NodeExistsError is raised inside the dialogue.
    """

    path: str
    content: bytes = b""
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A request to replace the content of the node at *path*. The dialogue is resumed with the new version of
    the node.

    Inside the dialogue, NodeVersionError is raised if *version* is not the version of the node (-1 stands for
    any version), and NoNodeError if the node does not exist.
    """

    path: str
    content: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    """A request to delete the node at *path*. The dialogue is resumed with True, or with False if the node
    did not exist.

    With *children*, the nodes below *path* are deleted too. Inside the dialogue, NodeVersionError is raised
    if *version* is not the version of the node (-1 stands for any version).
    """

    path: str
    version: int = -1
    children: bool = False


@dataclass(frozen=True, slots=True)
class RegistryPause:
    """A request to pause the dialogue. The dialogue is resumed with None after *seconds*."""

    seconds: float


RegistryRequest: TypeAlias = Read | Children | Create | Write | Delete


@dataclass(frozen=True, slots=True)
class Together:
    """Requests that are sent together. The dialogue is resumed with a list of their answers, in the same
    order.

    The requests are independent: one may succeed although another fails. If ZooKeeper rejects a request, such
    as the creation of an existing node, its answer is a KafkaError. If an answer does not arrive,
    RegistryConnectionError, SessionExpiredError or KafkaTimeoutError is raised inside the dialogue.
    """

    requests: tuple[RegistryRequest, ...]


RegistryDialogue: TypeAlias = Generator[RegistryRequest | Together | RegistryPause, Any, T]


def all_answers(requests: Iterable[RegistryRequest]) -> RegistryDialogue[list[Any]]:
    """Send *requests* together and return their answers. If an answer is an error, raise the first error."""
    asked = tuple(requests)
    answers: list[Any] = (yield Together(asked)) if asked else []
    for each in answers:
        if isinstance(each, KafkaError):
            raise each
    return answers

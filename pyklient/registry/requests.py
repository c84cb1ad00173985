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
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

__all__ = [
    "Children",
    "Create",
    "Delete",
    "Node",
    "Pause",
    "Read",
    "RegistryDialogue",
    "RegistryRequest",
    "Write",
]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Node:
    """The answer to a Read: what a node contains.

    ``version`` counts the writes to the node. An ``ephemeral`` node ends with the session that created it.
    It is ``mine`` if this is the present session of the client that asked.
    """

    content: bytes
    version: int = 0
    ephemeral: bool = False
    mine: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """Read the node at *path*; the dialogue is resumed with a Node, or None if there is no node.

    With *watch*, the next change is told: a write, the deletion, or the creation if there is no node yet.
    """

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Children:
    """List the children of *path*; the dialogue is resumed with their sorted names, or None if there is no
    node.

    With *watch*, the next change is told: a child that comes or goes, or the creation of *path* itself.
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

    With *version*, only if the node still has this version; NodeVersionError is raised if not. Raises
    NoNodeError if there is no node.
    """

    path: str
    content: bytes
    version: int = -1


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the node at *path*; the dialogue is resumed with True, or with False if there was no node.

    With *children*, the nodes below it are deleted too. *version* is used as in Write.
    """

    path: str
    version: int = -1
    children: bool = False


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait for *seconds*; the dialogue is resumed with None."""

    seconds: float


RegistryRequest: TypeAlias = Read | Children | Create | Write | Delete
RegistryDialogue: TypeAlias = Generator[RegistryRequest | Pause, Any, T]

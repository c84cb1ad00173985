"""The parts of which a regular expression consists."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from typing import TypeAlias

__all__ = [
    "Alternatives",
    "Anchor",
    "Atomic",
    "Characters",
    "Lookaround",
    "Node",
    "PatternError",
    "Repeat",
    "lengths",
]


class PatternError(ValueError):
    """A pattern is not valid in Java, or uses a construct that pyklient does not support."""


@dataclass(frozen=True)
class Characters:
    """A node that matches one of the characters *allowed*."""

    allowed: Set[str]


@dataclass(frozen=True)
class Alternatives:
    """A node that matches one of several sequences of nodes. Earlier sequences are preferred."""

    branches: Sequence[Sequence["Node"]]


@dataclass(frozen=True)
class Repeat:
    """A node that matches *body* at least *least* times and at most *most* times. None means no limit."""

    body: "Node"
    least: int
    most: int | None
    lazy: bool
    """True if fewer repetitions are preferred, as with ``*?``."""


@dataclass(frozen=True)
class Atomic:
    """A group for which the search tries only the first way to match, as with ``(?>…)`` and ``*+``."""

    body: "Node"


@dataclass(frozen=True)
class Lookaround:
    """A condition on the text after or before a position: the text matches *body*. If *negative* is true, the
    condition is that the text does not match *body*."""

    body: "Node"
    behind: int | None
    """For a lookbehind, the number of characters that *body* matches. None for a lookahead."""
    negative: bool


@dataclass(frozen=True)
class Anchor:
    """A condition on a position. *kind* is the letter of the escape by which Java writes the condition: A, z,
    b or B."""

    kind: str


Node: TypeAlias = Characters | Alternatives | Repeat | Atomic | Lookaround | Anchor


def lengths(node: Node) -> tuple[int, int | None]:
    """Return the smallest and the largest number of characters that *node* matches, or None for no limit."""
    match node:
        case Characters():
            return 1, 1
        case Atomic(body):
            return lengths(body)
        case Repeat(body, least, most):
            shortest, longest = lengths(body)
            if longest == 0 or most == 0:
                return 0, 0
            return shortest * least, None if longest is None or most is None else longest * most
        case Alternatives(branches):
            bounds = [[lengths(each) for each in branch] for branch in branches]
            shortest = min(sum(least for least, _ in branch) for branch in bounds)
            if any(most is None for branch in bounds for _, most in branch):
                return shortest, None
            return shortest, max(sum(most or 0 for _, most in branch) for branch in bounds)
    return 0, 0

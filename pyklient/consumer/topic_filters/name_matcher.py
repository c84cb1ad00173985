"""Matches whole names against a regular expression. The time grows only with the length of the name times the
length of the expression.

Python's ``re`` tries every way in which the repeats of a pattern can divide a name, and holds the GIL all the
time: with ``(a+)+b``, a name of sixty letters stops the whole process for years. This matcher tries each step
of a pattern at most once at each position of a name, as RE2 does. So it is safe to use patterns from other
members of a group or from users. For a lookaround or an atomic group, the matcher searches once for each
position at which the group begins.
"""

from collections.abc import Sequence

from pyklient.consumer.topic_filters.pattern_characters import CLASSES
from pyklient.consumer.topic_filters.pattern_steps import (
    ChoiceStep,
    ConditionStep,
    ReadStep,
    Step,
    make_steps,
)
from pyklient.consumer.topic_filters.pattern_syntax import Anchor, Atomic, Lookaround, Node

__all__ = ["NameMatcher"]


class NameMatcher:
    """A pattern that is ready to match names. Raises PatternError if a count in the pattern is too large."""

    def __init__(self, pattern: Node) -> None:
        self._steps, self._first = make_steps(pattern)

    def matches(self, name: str) -> bool:
        """Return True if the pattern matches the whole *name*."""
        return _Search(self._steps, name).end(self._first, 0, whole=True) is not None


class _Search:
    """Searches for a match of *name* along the *steps* of a pattern."""

    def __init__(self, steps: Sequence[Step], name: str) -> None:
        self._steps = steps
        self._name = name
        self._ends: dict[tuple[int, int], int | None] = {}
        """The position at which each lookaround or atomic group ends, or None if the group does not match.
        The key is the group's first step and the position at which the group begins."""

    def end(self, number: int, at: int, *, whole: bool) -> int | None:
        """Find the preferred match that begins with step *number* at position *at* of the name. Return the
        position at which it ends, or None if there is no match. If *whole* is true, a match must end at the
        end of the name."""
        steps, name, size = self._steps, self._name, len(self._name)
        tried: set[tuple[int, int]] = set()
        to_try = [(number, at)]
        while to_try:
            state = to_try.pop()
            number, at = state
            step = steps[number]
            if state in tried:
                if isinstance(step, ChoiceStep) and step.again is not None:
                    to_try.append((step.again, at))
                continue
            tried.add(state)
            if isinstance(step, ReadStep):
                if at < size and name[at] in step.allowed:
                    to_try.append((step.following, at + 1))
            elif isinstance(step, ChoiceStep):
                possible = step.by_character.get(name[at], step.otherwise) if at < size else step.otherwise
                to_try += [(each, at) for each in reversed(possible)]
            elif step is None:
                if at == size or not whole:
                    return at
            elif (after := self._after(step, at)) is not None:
                to_try.append((step.following, after))
        return None

    def _after(self, step: ConditionStep, at: int) -> int | None:
        """Return the position after *step* if its condition holds at position *at*, and None otherwise."""
        match step.node:
            case Atomic():
                return self._group_end(step.body, at)
            case Lookaround(behind=behind, negative=negative):
                begin = at - (behind or 0)
                holds = (begin >= 0 and self._group_end(step.body, begin) is not None) != negative
            case Anchor("A"):
                holds = at == 0
            case Anchor("z"):
                holds = at == len(self._name)
            case Anchor(kind):
                holds = self._is_boundary(at) == (kind == "b")
        return at if holds else None

    def _is_boundary(self, at: int) -> bool:
        """Return True if exactly one of the characters before and after position *at* is a part of a word."""
        around = self._name[max(at - 1, 0) : at + 1]
        return sum(each in CLASSES["w"] for each in around) == 1

    def _group_end(self, body: int, at: int) -> int | None:
        if (body, at) not in self._ends:
            self._ends[body, at] = self.end(body, at, whole=False)
        return self._ends[body, at]

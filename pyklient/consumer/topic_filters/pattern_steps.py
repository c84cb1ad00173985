"""Turns a regular expression into steps. Each step reads a character of a name, or checks a condition, and
continues with another step.

A step refers to other steps by their numbers. Step 0 is the end of the pattern.
"""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

from pyklient.consumer.topic_filters.pattern_syntax import (
    Alternatives,
    Anchor,
    Atomic,
    Characters,
    Lookaround,
    Node,
    PatternError,
    Repeat,
)

__all__ = ["ChoiceStep", "ConditionStep", "ReadStep", "Step", "make_steps"]

_MAX_REPEATED: Final = 5_000
"""The largest number of steps that one repeat with a count, such as ``a{9}``, may have."""
_END: Final = 0


@dataclass(frozen=True, slots=True)
class ReadStep:
    """A step that reads one of the characters *allowed*, and continues with the step *following*."""

    allowed: Set[str]
    following: int


@dataclass(frozen=True, slots=True)
class ChoiceStep:
    """A step that reads no character, and continues with one of several steps."""

    by_character: dict[str, list[int]]
    """For each character, the steps to try if it comes next. The preferred step comes first."""
    otherwise: list[int]
    """The steps to try if the next character is not in ``by_character``, or if the name ends here."""
    again: int | None = None
    """The step to try if the search reaches this choice a second time at the same position of the name. Only
    the choice of a loop has such a step: as in Java, a loop ends when a repetition reads no character."""


@dataclass(frozen=True, slots=True)
class ConditionStep:
    """A step that continues with the step *following* if the condition *node* holds. If *node* is a
    lookaround or an atomic group, *body* is the first step inside the group."""

    node: Lookaround | Anchor | Atomic
    body: int
    following: int


Step: TypeAlias = ReadStep | ChoiceStep | ConditionStep | None
"""A step of a pattern. None marks the end of the pattern. While ``make_steps`` runs, None also stands for a
step that has a number already, and is made later."""


def make_steps(pattern: Node) -> tuple[Sequence[Step], int]:
    """Return the steps of *pattern*, and the number of the first one. Raise PatternError if a count in
    *pattern* leads to too many steps."""
    made = _Steps()
    first = made.add(pattern, _END)
    return made.steps, first


class _Steps:
    def __init__(self) -> None:
        self.steps: list[Step] = [None]

    def add(self, node: Node, following: int) -> int:
        """Add the steps of *node*, and let the last one continue at the step number *following*. Return the
        number of the first new step."""
        match node:
            case Characters(allowed):
                return self._append(ReadStep(allowed, following))
            case Alternatives(branches):
                firsts = [self._add_sequence(each, following) for each in branches]
                return firsts[0] if len(firsts) == 1 else self._add_choice(firsts)
            case Repeat():
                return self._add_repeat(node, following)
            case Atomic(body) | Lookaround(body):
                return self._append(ConditionStep(node, self.add(body, _END), following))
        return self._append(ConditionStep(node, _END, following))

    def _add_sequence(self, nodes: Sequence[Node], following: int) -> int:
        for node in reversed(nodes):
            following = self.add(node, following)
        return following

    def _add_repeat(self, node: Repeat, following: int) -> int:
        before = len(self.steps)
        first, least = following, node.least
        if node.most is None:
            loop = self._append(None)
            body = self.add(node.body, loop)
            self._make_choice(loop, [following, body] if node.lazy else [body, following], again=following)
            first = body
            if least == 0:
                first = self._add_choice([following, body] if node.lazy else [body, following])
            least = max(least - 1, 0)
        else:
            for _ in range(node.most - least):
                body = self.add(node.body, first)
                first = self._add_choice([following, body] if node.lazy else [body, following])
                self._check_size(before)
        for _ in range(least):
            body, after = self.add(node.body, first), first
            first = body
            self._check_size(before)
            if body == after:  # The body is empty, so it makes no step however often it is repeated.
                break
        return first

    def _check_size(self, before: int) -> None:
        if len(self.steps) - before > _MAX_REPEATED:
            raise PatternError(
                "the pattern repeats a part too often, although the name of a topic has at most 249 "
                f"characters (matching takes more than {_MAX_REPEATED} steps); use '*' or '+', or a smaller "
                "count"
            )

    def _add_choice(self, steps: list[int]) -> int:
        number = self._append(None)
        self._make_choice(number, steps)
        return number

    def _make_choice(self, number: int, steps: list[int], again: int | None = None) -> None:
        """Make step *number* a choice between *steps*. *again* is the step to try if the search reaches the
        choice a second time at the same position of the name. The choice tries only the steps that can read
        the next character.

        Steps that read the same single character become one step, which is followed by the choice between the
        steps after them. So a filter that lists a thousand topics reads their common beginning only once.
        """
        unfinished = [(number, steps, again)]
        while unfinished:
            number, steps, again = unfinished.pop()
            choice = self._choice(list(dict.fromkeys(steps)), again)
            self.steps[number] = choice
            for character, possible in choice.by_character.items():
                merged: list[int] = []
                for same, group in groupby(possible, key=lambda each: self._reads(each) == {character}):
                    together = list(group)
                    if same and len(together) > 1:
                        followers = [self._following(each) for each in together]
                        unfinished.append((self._append(None), followers, None))
                        together = [self._append(ReadStep({character}, unfinished[-1][0]))]
                    merged += together
                choice.by_character[character] = merged

    def _choice(self, steps: list[int], again: int | None) -> ChoiceStep:
        reads = [(step, self._reads(step)) for step in steps]
        characters = {character for _, allowed in reads for character in allowed or ()}
        by_character: dict[str, list[int]] = {each: [] for each in characters}
        for step, allowed in reads:
            for character in characters if allowed is None else allowed:
                by_character[character].append(step)
        return ChoiceStep(by_character, [step for step, allowed in reads if allowed is None], again)

    def _reads(self, number: int) -> Set[str] | None:
        step = self.steps[number]
        return step.allowed if isinstance(step, ReadStep) else None

    def _following(self, number: int) -> int:
        step = self.steps[number]
        assert isinstance(step, ReadStep)
        return step.following

    def _append(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

"""Regular expressions that are matched in linear time, as by RE2, which Kafka uses for patterns that clients
send.

Python's ``re`` takes exponential time for some patterns, so that one request could stop the broker.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, TypeAlias

__all__ = ["LinearPattern", "PatternError"]

_LONGEST: Final = 1_000
_DEEPEST: Final = 50
_MOST_STEPS: Final = 500
"""The largest number of steps in the automaton of a pattern, in which ``a{9}`` has a step for each ``a``.
``_LONGEST`` limits the characters of a pattern, and ``_DEEPEST`` the depth of its groups."""
_REPEATS: Final = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_COUNTS: Final = re.compile(r"\{(\d{1,4})(?:(,)(\d{0,4}))?\}", re.ASCII)
_ESCAPE: Final = re.compile(r"\\(?:[dDwWsS]|[^\w\s])", re.ASCII)
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_UNCLEAR: Final = re.compile(r"\[|--|&&|~~|\|\|")
"""Matches text that the broker rejects in a character class, because Python
gives it another meaning than RE2, or may do so in a later version."""
_GROUP: Final = re.compile(r"\((?:\?:|\?P?<\w+>|(?!\?))", re.ASCII)


class PatternError(ValueError):
    """Raised if a pattern is invalid or too large, or has a part that is not supported."""


@dataclass(frozen=True, slots=True)
class _Repeat:
    """A part of a pattern that is repeated at least *least* times, and at most *most* times."""

    part: "_Part"
    least: int
    most: int | None


_Sequence: TypeAlias = "tuple[_Part, ...]"


@dataclass(frozen=True, slots=True)
class _Alternatives:
    sequences: tuple[_Sequence, ...]


_Part: TypeAlias = re.Pattern[str] | _Alternatives | _Repeat
"""An expression for one character, a group, or a repetition."""


@dataclass(eq=False, slots=True)
class _State:
    """A state of the automaton. If *atom* is not None, the next character must match *atom*. *after* has the
    states that follow."""

    atom: re.Pattern[str] | None = None
    after: list["_State"] = field(default_factory=list)


class LinearPattern:
    """The regular expression *text*: characters, ``.``, classes, groups, alternatives, and repetitions.

    ``^`` and ``$`` are allowed only around the whole pattern. Raises PatternError for other parts, such as
    back-references, which RE2 does not support either.
    """

    def __init__(self, text: str) -> None:
        parsed = _Parser(text).parse()
        self._steps = 0
        self._begin = _State()
        self._end = self._build(parsed, self._begin)

    def matches(self, text: str) -> bool:
        """Return True if the pattern matches the whole *text*."""
        states = _with_successors([self._begin])
        for character in text:
            states = _with_successors(
                each.after[0] for each in states if each.atom is not None and each.atom.fullmatch(character)
            )
            if not states:
                return False
        return self._end in states

    def _build(self, part: _Part, begin: _State) -> _State:
        """Add the states of *part* after *begin*, and return the last state."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise PatternError(f"the pattern is too large: matching it takes more than {_MOST_STEPS} steps")
        end = _State()
        if isinstance(part, re.Pattern):
            begin.after.append(_State(part, [end]))
        elif isinstance(part, _Alternatives):
            for sequence in part.sequences:
                last = _State()
                begin.after.append(last)
                for each in sequence:
                    last = self._build(each, last)
                last.after.append(end)
        else:
            for _ in range(part.least):
                begin = self._build(part.part, begin)
            if part.most is None:
                begin.after.append(end)
                self._build(part.part, end).after.append(end)
                begin, end = end, _State()
            for _ in range((part.most or part.least) - part.least):
                begin.after.append(end)
                begin = self._build(part.part, begin)
            begin.after.append(end)
        return end


def _with_successors(states: Iterable[_State]) -> set[_State]:
    """Return *states*, and the states that can be reached from them without reading a character."""
    found: set[_State] = set()
    left = list(states)
    while left:
        state = left.pop()
        if state not in found:
            found.add(state)
            if state.atom is None:
                left += state.after
    return found


class _Parser:
    """Parses the regular expression *text*."""

    def __init__(self, text: str) -> None:
        if len(text) > _LONGEST:
            raise PatternError(f"the pattern has more than {_LONGEST} characters")
        self._text = text.removeprefix("^")
        if re.search(r"(?<!\\)(?:\\\\)*\$$", self._text):
            self._text = self._text[:-1]
        self._at = 0
        self._depth = 0

    def parse(self) -> _Part:
        """Return the whole pattern."""
        whole = self._alternatives()
        if self._at < len(self._text):
            raise self._error()
        return whole

    def _alternatives(self) -> _Part:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PatternError(f"the groups of the pattern are nested more than {_DEEPEST} deep")
        sequences = [self._sequence()]
        while self._next() == "|":
            self._at += 1
            sequences.append(self._sequence())
        self._depth -= 1
        return _Alternatives(tuple(sequences))

    def _sequence(self) -> _Sequence:
        parts = []
        while self._next() not in ("", "|", ")"):
            parts.append(self._repeated(self._single()))
        return tuple(parts)

    def _single(self) -> _Part:
        """Parse the next part, a group or an expression for one character, and return it."""
        here = self._next()
        if here == "(":
            self._read(_GROUP)
            group = self._alternatives()
            if self._next() != ")":
                raise self._error()
            self._at += 1
            return group
        if here == "[":
            token = self._read(_CLASS)
            if _UNCLEAR.search(token, 1):
                raise self._error()
        elif here == "\\":
            token = self._read(_ESCAPE)
        elif here in "*+?^$" or _COUNTS.match(self._text, self._at):
            raise self._error()
        else:
            token = "." if here == "." else re.escape(here)
            self._at += 1
        try:
            return re.compile(token, re.DOTALL)
        except re.error as error:
            raise self._error() from error

    def _repeated(self, part: _Part) -> _Part:
        counts = _COUNTS.match(self._text, self._at)
        if counts is not None:
            self._at = counts.end()
            least = int(counts[1])
            most = least if counts[2] is None else int(counts[3]) if counts[3] else None
            if most is not None and most < least:
                raise self._error()
        elif (here := self._next()) in _REPEATS:
            self._at += 1
            least, most = _REPEATS[here]
        else:
            return part
        if self._next() == "?":  # as few as possible, which is the same if the whole text must match
            self._at += 1
        return _Repeat(part, least, most)

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _read(self, expression: re.Pattern[str]) -> str:
        found = expression.match(self._text, self._at)
        if found is None:
            raise self._error()
        self._at = found.end()
        return found[0]

    def _error(self) -> PatternError:
        return PatternError(f"the pattern is invalid or not supported at {self._text[self._at :]!r}")

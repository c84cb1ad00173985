r"""Parses regular expressions in Java's syntax. Topic filters are written in this syntax, because other
members of a consumer group may be Java programs.

The names of topics are ASCII, so only ASCII characters are considered. These constructs of Java are errors:

- references to what a group has matched, such as ``\1``
- the flag x, ``\G``, ``\X`` and ``\R``
- Unicode classes other than ``\p{L}``, ``\p{Lu}``, ``\p{Ll}``, ``\p{N}`` and ``\p{Nd}``
- a count in braces with nothing before it to repeat
- ``&&`` without characters on both sides
- a lookbehind of variable length
- more than fifty nested groups
"""

import re
from collections.abc import Set
from typing import Final

from pyklient.consumer.topic_filters.name_matcher import NameMatcher
from pyklient.consumer.topic_filters.pattern_characters import ASCII, CLASSES, PROPERTIES, in_both_cases
from pyklient.consumer.topic_filters.pattern_syntax import (
    Alternatives,
    Anchor,
    Atomic,
    Characters,
    Lookaround,
    Node,
    PatternError,
    Repeat,
    lengths,
)

__all__ = ["java_pattern"]

_CONTROL_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ANCHORS: Final = {"b": "b", "B": "B", "A": "A", "z": "z", "Z": "z", "^": "A", "$": "z"}
_NO_EFFECT: Final = "dmsuU"
"""The flags of Java's patterns that the parser ignores. They do not change which topics match, because the
names of topics are ASCII and have one line."""
_ANY: Final = ASCII - {"\n", "\r"}
_MAX_DEPTH: Final = 50
"""The largest depth of nested groups or classes in a pattern. It keeps the recursion of the parser below
Python's recursion limit."""
_MAX_DIGITS: Final = 5


def java_pattern(pattern: str) -> NameMatcher:
    """Return a matcher for *pattern*, a regular expression in Java's syntax.

    Raise PatternError if *pattern* is not valid or not supported. The error has the reason and the position.
    """
    return NameMatcher(_Parser(_without_quotations(pattern)).whole())


def _without_quotations(pattern: str) -> str:
    r"""Return *pattern* without ``\Q`` and ``\E``. Special characters between them get a backslash."""
    parts, at = [], 0
    while at < len(pattern):
        if not pattern.startswith("\\Q", at):
            size = 2 if pattern[at] == "\\" else 1
            parts.append(pattern[at : at + size])
            at += size
            continue
        end = pattern.find("\\E", at)
        quoted = pattern[at + 2 : len(pattern) if end < 0 else end]
        parts += [each if each.isalnum() or not each.isascii() else "\\" + each for each in quoted]
        at = len(pattern) if end < 0 else end + 2
    return "".join(parts)


class _Parser:
    """Reads one pattern from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignore_case = False
        self._depth = 0
        self._names: set[str] = set()

    def whole(self) -> Node:
        """Parse the whole pattern, and return its node."""
        node = self._alternatives()
        if self._at < len(self._pattern):
            self._at += 1
            raise self._error("the pattern has a ')' without a '('")
        return node

    def _alternatives(self) -> Node:
        """Parse up to the end of the pattern, or up to the ``)`` that closes the group. Return the parsed
        node."""
        branches: list[list[Node]] = [[]]
        repeatable = False
        while self._at < len(self._pattern) and self._pattern[self._at] != ")":
            character = self._read()
            match character:
                case "|":
                    branches.append([])
                    repeatable = False
                case "*" | "+" | "?" | "{":
                    if not repeatable:
                        raise self._error(f"'{character}' has nothing to repeat")
                    branches[-1].append(self._quantified(branches[-1].pop(), character))
                    repeatable = False
                case _:
                    node = self._group() if character == "(" else self._atom(character)
                    repeatable = node is not None
                    branches[-1] += [] if node is None else [node]
        return Alternatives(branches)

    def _atom(self, character: str) -> Node:
        """Parse the element that begins with *character* and is not a group. Return its node."""
        if character in "^$":
            return Anchor(_ANCHORS[character])
        if character == "\\" and self._pattern[self._at : self._at + 1] in tuple("bBAzZ"):
            letter = self._read()
            if letter == "b" and self._pattern.startswith("{", self._at):
                raise self._error("the construct '\\b{' is not supported")
            return Anchor(_ANCHORS[letter])
        match character:
            case "[":
                return Characters(self._class())
            case "\\":
                return Characters(self._escaped())
            case ".":
                return Characters(_ANY)
        return Characters(self._in_both_cases({character}))

    def _group(self) -> Node | None:
        """Parse the group that begins after ``(``, and return its node. Return None for flags without a
        group, such as ``(?i)``. Such flags apply up to the end of the enclosing group."""
        if not self._pattern.startswith("?", self._at):
            return self._contents()
        for opening in ("?:", "?=", "?!", "?<=", "?<!", "?>"):
            if self._pattern.startswith(opening, self._at):
                self._at += len(opening)
                return self._special(opening, self._contents())
        if (named := re.compile("[?]<([a-zA-Z][a-zA-Z0-9]*)>").match(self._pattern, self._at)) is not None:
            if named[1] in self._names:
                raise self._error(f"two groups have the name '{named[1]}'")
            self._names.add(named[1])
            self._at = named.end()
            return self._contents()
        flags = re.compile("[?]([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])").match(self._pattern, self._at)
        if flags is None or not set((flags[1] or "") + (flags[2] or "")) <= {*_NO_EFFECT, "i"}:
            raise self._error("this kind of group or flag, which begins with '(?', is not supported")
        self._at = flags.end()
        before = self._ignore_case
        self._ignore_case = (before or "i" in flags[1]) and "i" not in (flags[2] or "")
        if flags[3] == ")":
            return None
        node = self._contents()
        self._ignore_case = before
        return node

    def _contents(self) -> Node:
        """Parse the contents of the group that has just begun, with the ``)`` at its end. Return the
        node for these contents."""
        before = self._ignore_case
        self._deeper()
        node = self._alternatives()
        self._depth -= 1
        self._ignore_case = before
        if self._at >= len(self._pattern):
            raise self._error("the pattern has a '(' without a ')'")
        self._at += 1
        return node

    def _special(self, opening: str, contents: Node) -> Node:
        if opening == "?:":
            return contents
        if opening == "?>":
            return Atomic(contents)
        width = None
        if opening.startswith("?<"):
            shortest, longest = lengths(contents)
            if shortest != longest:
                raise self._error("a look-behind must match a fixed number of characters")
            width = shortest
        return Lookaround(contents, width, negative=opening.endswith("!"))

    def _quantified(self, body: Node, character: str) -> Node:
        """Parse the quantifier that begins with *character*, such as ``*`` or ``{``. Return a node that
        repeats *body*."""
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1), "{": (0, 0)}[character]
        if character == "{":
            counts = re.compile("([0-9]+)(,([0-9]*))?}").match(self._pattern, self._at)
            if counts is None:
                raise self._error(
                    "'{' needs one number, as in '{3}'; '{1,3}' cannot be used, because a comma in a topic "
                    "filter means 'or'"
                )
            self._at = counts.end()
            if max(len(counts[1]), len(counts[3] or "")) > _MAX_DIGITS:
                raise self._error("a count in '{…}' is too large: topic names have at most 249 characters")
            least = int(counts[1])
            most = least if counts[2] is None else int(counts[3]) if counts[3] else None
            if most is not None and most < least:
                raise self._error("the first count in '{…}' is larger than the second")
        kind = self._pattern[self._at : self._at + 1]
        self._at += kind in ("?", "+")
        if kind == "+":  # In Java, a repetition that has matched is never tried in another way.
            return Atomic(Repeat(Atomic(body), least, most, lazy=False))
        return Repeat(body, least, most, lazy=kind == "?")

    def _escaped(self) -> Set[str]:
        """Parse an escape after its backslash, such as the ``d`` of ``\\d``. Return the characters that the
        escape matches."""
        letter = self._read()
        if letter in "dwshv":
            return CLASSES[letter]
        if letter in "DWSHV":
            return ASCII - CLASSES[letter.lower()]
        if letter in "pP":
            name = re.compile("{(?:Is)?([A-Za-z]+)}|([A-Z])").match(self._pattern, self._at)
            found = None if name is None else PROPERTIES.get(name[1] or name[2])
            if name is None or found is None:
                raise self._error(f"the property after '\\{letter}' is not supported")
            self._at = name.end()
            characters = self._in_both_cases(found)
            return characters if letter == "p" else ASCII - characters
        return self._in_both_cases({self._character(letter)})

    def _character(self, letter: str) -> str:
        """Return the character that a backslash and *letter* stand for, with the digits or the letter after
        them in an escape such as ``\\x41``."""
        if letter in _CONTROL_LETTERS:
            return _CONTROL_LETTERS[letter]
        for prefix, digits, base in (
            ("x", "([0-9a-fA-F]{2})|{([0-9a-fA-F]{1,6})}", 16),
            ("u", "([0-9a-fA-F]{4})", 16),
            ("0", "([0-3][0-7]{2}|[0-7]{1,2})", 8),
        ):
            if letter == prefix:
                number = re.compile(digits).match(self._pattern, self._at)
                code = -1 if number is None else int(number[number.lastindex or 1], base)
                if number is None or code > 0x10FFFF:
                    raise self._error(f"'\\{letter}' needs the number of a character after it, as in '\\x41'")
                self._at = number.end()
                return chr(code)
        if letter == "c":
            return chr(ord(self._read()) ^ 64)
        if letter.isascii() and letter.isalnum():
            raise self._error(f"the construct '\\{letter}' is not supported")
        return letter

    def _class(self) -> Set[str]:
        """Parse the character class that begins after ``[``. Return the characters that the class matches."""
        self._deeper()
        negated = self._pattern.startswith("^", self._at)
        self._at += negated
        parts: list[set[str]] = [set()]
        filled = False
        while True:
            character = self._read()
            if character == "]" and filled:
                break
            if character == "&" and self._pattern.startswith("&", self._at):
                self._at += 1
                if not filled or self._pattern[self._at : self._at + 1] in ("]", "&"):
                    raise self._error("'&&' needs characters on both sides")
                parts.append(set())
                continue
            parts[-1] |= self._class() if character == "[" else self._range(character)
            filled = True
        self._depth -= 1
        found = frozenset.intersection(*map(frozenset, parts))
        return ASCII - found if negated else found

    def _range(self, first: str) -> Set[str]:
        """Parse the next element of a character class, which begins with *first*: one character, a range or
        an escape. Return the characters that the element matches."""
        if first == "\\":
            letter = self._read()
            if letter in "dwshvDWSHVpP":
                self._at -= 1
                return self._escaped()
            first = self._character(letter)
        ahead = self._pattern[self._at : self._at + 2]
        if not ahead.startswith("-") or ahead in ("-]", "-["):
            return self._in_both_cases({first})
        self._at += 1
        last = self._read()
        if last == "\\":
            last = self._character(self._read())
        if last < first:
            raise self._error(f"the range '{first}-{last}' is empty")
        return self._in_both_cases({each for each in ASCII if first <= each <= last})

    def _in_both_cases(self, characters: Set[str]) -> Set[str]:
        return in_both_cases(characters) if self._ignore_case else characters

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._error(f"the pattern has more than {_MAX_DEPTH} nested groups or classes")

    def _read(self) -> str:
        if self._at >= len(self._pattern):
            raise self._error("the pattern is not complete at its end")
        self._at += 1
        return self._pattern[self._at - 1]

    def _error(self, reason: str) -> PatternError:
        return PatternError(f"{reason}, at position {max(self._at - 1, 0)} of the pattern {self._pattern!r}")

r"""Regular expressions in Java's syntax. Filters of topics have it, because other members of a group may be
Java programs.

The names of topics are ASCII, so only ASCII characters are considered. Errors, although Java has them:
references to groups, the flag x, ``\G``, ``\X``, ``\R``, Unicode classes other than ``\p{L}``, ``\p{Lu}``,
``\p{Ll}``, ``\p{N}`` and ``\p{Nd}``, a number in braces that follows nothing that it could repeat, ``&&``
without characters on both sides, and a lookbehind of variable length.
"""

import re
import string
from collections.abc import Set
from typing import Final

__all__ = ["PatternError", "java_pattern"]

_ASCII: Final = frozenset(map(chr, range(128)))
_DIGITS: Final = frozenset(string.digits)
_LOWER: Final = frozenset(string.ascii_lowercase)
_UPPER: Final = frozenset(string.ascii_uppercase)
_ALPHA: Final = _LOWER | _UPPER
_SPACES: Final = frozenset(" \t\n\v\f\r")
_PUNCTUATION: Final = frozenset(string.punctuation)
_CONTROLS: Final = frozenset(map(chr, (*range(32), 127)))
_CLASSES: Final = {
    "d": _DIGITS,
    "w": _ALPHA | _DIGITS | {"_"},
    "s": _SPACES,
    "h": frozenset(" \t"),
    "v": frozenset("\n\v\f\r"),
}
_PROPERTIES: Final = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": _ASCII,
    "Alpha": _ALPHA,
    "Digit": _DIGITS,
    "Alnum": _ALPHA | _DIGITS,
    "Punct": _PUNCTUATION,
    "Graph": _ALPHA | _DIGITS | _PUNCTUATION,
    "Print": _ALPHA | _DIGITS | _PUNCTUATION | {" "},
    "Blank": frozenset(" \t"),
    "Cntrl": _CONTROLS,
    "XDigit": frozenset(string.hexdigits),
    "Space": _SPACES,
    "L": _ALPHA,
    "Lu": _UPPER,
    "Ll": _LOWER,
    "N": _DIGITS,
    "Nd": _DIGITS,
}
_CONTROL_LETTERS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_ASSERTIONS: Final = {"b": "(?:\\b)", "B": "(?:\\B)", "A": "(?:\\A)", "z": "(?:\\Z)", "Z": "(?:\\Z)"}
_GROUP_OPENINGS: Final = ("(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>")
_NO_EFFECT: Final = "dmsuU"
"""The flags that change nothing for names in ASCII that have one line."""


class PatternError(ValueError):
    """A pattern is not valid in Java, or uses a construct that pyklient does not support."""


def java_pattern(pattern: str) -> re.Pattern[str]:
    """Compile *pattern*, a regular expression in Java's syntax. The result decides with ``fullmatch`` whether
    a name in ASCII matches.

    Raise PatternError with the reason and the position in *pattern*.
    """
    translation = _Translation(_without_quotations(pattern))
    try:
        return re.compile(translation.whole())
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(str(error)) from None


def _without_quotations(pattern: str) -> str:
    r"""Return *pattern* with a backslash before each character between ``\Q`` and ``\E`` that needs one."""
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


class _Translation:
    """The translation of one pattern into Python's syntax, from left to right."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._ignore_case = False
        self._outer: list[bool] = []
        """For each group around the present position: True if the group ignores case."""
        self._repeatable = False
        """True if a quantifier may follow."""
        self._names: set[str] = set()

    def whole(self) -> str:
        """Return the whole pattern in Python's syntax."""
        parts = []
        while self._at < len(self._pattern):
            parts.append(self._next())
        if self._outer:
            raise self._error("a group is not closed")
        return "".join(parts)

    def _next(self) -> str:
        """Return the next part of the pattern in Python's syntax."""
        character = self._read()
        match character:
            case "(":
                return self._group()
            case ")":
                if not self._outer:
                    raise self._error("this ')' closes no group")
                self._ignore_case, self._repeatable = self._outer.pop(), True
                return ")"
            case "|":
                self._repeatable = False
                return "|"
            case "*" | "+" | "?" | "{":
                return self._quantifier(character)
        self._repeatable = True
        match character:
            case "[":
                return _one_of(self._class())
            case "\\":
                return self._escape()
            case ".":
                return "."
            case "^" | "$":
                return f"(?:{character})"
        return _one_of(self._in_both_cases({character}))

    def _group(self) -> str:
        """Return the opening of a group. For flags without a group, such as ``(?i)``, return nothing: they
        hold up to the end of the group around them."""
        for opening in _GROUP_OPENINGS:
            if self._pattern.startswith(opening, self._at - 1):
                self._at += len(opening) - 1
                return self._opened(opening)
        if not self._pattern.startswith("?", self._at):
            return self._opened("(?:")
        if (named := re.compile("[?]<([a-zA-Z][a-zA-Z0-9]*)>").match(self._pattern, self._at)) is not None:
            if named[1] in self._names:
                raise self._error(f"two groups have the name '{named[1]}'")
            self._names.add(named[1])
            self._at = named.end()
            return self._opened("(?:")
        flags = re.compile("[?]([a-zA-Z]*)(?:-([a-zA-Z]*))?([:)])").match(self._pattern, self._at)
        if flags is None or not set((flags[1] or "") + (flags[2] or "")) <= {*_NO_EFFECT, "i"}:
            raise self._error("this kind of group or flag after '(?' is not supported")
        self._at = flags.end()
        before = self._ignore_case
        self._ignore_case = (before or "i" in flags[1]) and "i" not in (flags[2] or "")
        self._repeatable = False
        if flags[3] == ")":
            return ""
        self._outer.append(before)
        return "(?:"

    def _opened(self, opening: str) -> str:
        self._outer.append(self._ignore_case)
        self._repeatable = False
        return opening

    def _quantifier(self, character: str) -> str:
        if not self._repeatable:
            raise self._error(f"there is nothing that '{character}' repeats")
        if character == "{":
            counts = re.compile("[0-9]+(?:,[0-9]*)?}").match(self._pattern, self._at)
            if counts is None:
                raise self._error("'{' needs a number, as in '{3}'; a comma means 'or' in a filter")
            character += counts[0]
            self._at = counts.end()
        if self._pattern[self._at : self._at + 1] in ("?", "+"):
            character += self._read()
        self._repeatable = False
        return character

    def _escape(self) -> str:
        following = self._pattern[self._at : self._at + 1]
        if following in _ASSERTIONS and following:
            self._at += 1
            if following == "b" and self._pattern.startswith("{", self._at):
                raise self._error("the construct '\\b{' is not supported")
            return _ASSERTIONS[following]
        return _one_of(self._escaped())

    def _escaped(self) -> Set[str]:
        """Return the characters that match what follows a backslash."""
        letter = self._read()
        if letter in "dwshv":
            return _CLASSES[letter]
        if letter in "DWSHV":
            return _ASCII - _CLASSES[letter.lower()]
        if letter in "pP":
            name = re.compile("{(?:Is)?([A-Za-z]+)}|([A-Z])").match(self._pattern, self._at)
            found = None if name is None else _PROPERTIES.get(name[1] or name[2])
            if name is None or found is None:
                raise self._error(f"this property after '\\{letter}' is not supported")
            self._at = name.end()
            characters = self._in_both_cases(found)
            return characters if letter == "p" else _ASCII - characters
        return self._in_both_cases({self._character(letter)})

    def _character(self, letter: str) -> str:
        """Return the character that a backslash and *letter* stand for."""
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
                    raise self._error(f"'\\{letter}' needs the number of a character")
                self._at = number.end()
                return chr(code)
        if letter == "c":
            return chr(ord(self._read()) ^ 64)
        if letter.isascii() and letter.isalnum():
            raise self._error(f"the construct '\\{letter}' is not supported")
        return letter

    def _class(self) -> Set[str]:
        """Return the characters in the class that begins after the opening bracket."""
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
        found = frozenset.intersection(*map(frozenset, parts))
        return _ASCII - found if negated else found

    def _range(self, first: str) -> Set[str]:
        """Return the next characters of a class, which begin with *first*: one character, a range or an
        escape."""
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
        return self._in_both_cases({each for each in _ASCII if first <= each <= last})

    def _in_both_cases(self, characters: Set[str]) -> Set[str]:
        if not self._ignore_case:
            return characters
        letters = {each for each in characters if each in _ALPHA}
        return characters | {each.swapcase() for each in letters}

    def _read(self) -> str:
        if self._at >= len(self._pattern):
            raise self._error("the pattern ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _error(self, reason: str) -> PatternError:
        return PatternError(f"{reason}, at position {max(self._at - 1, 0)} of the pattern {self._pattern!r}")


def _one_of(characters: Set[str]) -> str:
    """Return a pattern that matches one of *characters*."""
    if len(characters) == 1:
        return re.escape(*characters)
    if not characters:
        return "(?:(?!))"
    return "[" + "".join(f"\\x{ord(each):02x}" for each in sorted(characters)) + "]"

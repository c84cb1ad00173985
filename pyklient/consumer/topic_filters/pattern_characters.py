r"""The ASCII characters in the classes of Java's patterns, such as ``\d`` and ``\p{Lower}``."""

import string
from collections.abc import Set
from typing import Final

__all__ = ["ASCII", "CLASSES", "PROPERTIES", "in_both_cases"]

ASCII: Final = frozenset(map(chr, range(128)))
_DIGITS: Final = frozenset(string.digits)
_LOWER: Final = frozenset(string.ascii_lowercase)
_UPPER: Final = frozenset(string.ascii_uppercase)
_ALPHA: Final = _LOWER | _UPPER
_SPACES: Final = frozenset(" \t\n\v\f\r")
_PUNCTUATION: Final = frozenset(string.punctuation)

CLASSES: Final = {
    "d": _DIGITS,
    "w": _ALPHA | _DIGITS | {"_"},
    "s": _SPACES,
    "h": frozenset(" \t"),
    "v": frozenset("\n\v\f\r"),
}
"""Maps the letter of each class, such as the ``d`` of ``\\d``, to the characters of this class."""

PROPERTIES: Final = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": ASCII,
    "Alpha": _ALPHA,
    "Digit": _DIGITS,
    "Alnum": _ALPHA | _DIGITS,
    "Punct": _PUNCTUATION,
    "Graph": _ALPHA | _DIGITS | _PUNCTUATION,
    "Print": _ALPHA | _DIGITS | _PUNCTUATION | {" "},
    "Blank": frozenset(" \t"),
    "Cntrl": frozenset(map(chr, (*range(32), 127))),
    "XDigit": frozenset(string.hexdigits),
    "Space": _SPACES,
    "L": _ALPHA,
    "Lu": _UPPER,
    "Ll": _LOWER,
    "N": _DIGITS,
    "Nd": _DIGITS,
}
"""Maps the name of each property, such as ``Lower`` in ``\\p{Lower}``, to the characters of this property."""


def in_both_cases(characters: Set[str]) -> Set[str]:
    """Return *characters*, and each ASCII letter among them in the other case too."""
    return characters | {each.swapcase() for each in characters if each in _ALPHA}

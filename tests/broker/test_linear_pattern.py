"""Regular expressions that are matched in linear time."""

import re

import pytest

from pyklient.broker.linear_pattern import LinearPattern, PatternError
from tests.run.seed import dice

TEXTS = ["", "a", "b", "ab", "aab", "abab", "a.b", "a-1", "a\nb", "[", "{b}", "é", "aaaa"]


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "a", ".*", "a+b", "a?b", "(ab)*", "(?:ab)+", "(?P<x>a)|b", "a|ab|", "a{2}b", "a{2,}"),
        *("a{1,3}b?", "[ab]+", "[^a]", r"a\.b", r"a-\d", r"\w+", r"\W", "a[-.]b", "^a$", "^(a|b)+$"),
        *("a.b", "{b}", "a*?b", "()*a", "(a*)*b", "((a|b)*|c)+", "[]ab]", r"[\d]", "((((a))))", "é"),
    ],
)
def test_a_pattern_matches_what_pythons_matches(pattern: str) -> None:
    ours, pythons = LinearPattern(pattern), re.compile(pattern, re.DOTALL)
    expected = [each for each in TEXTS if pythons.fullmatch(each)]
    assert [each for each in TEXTS if ours.matches(each)] == expected


def test_random_patterns_match_what_pythons_match() -> None:
    rng = dice("patterns")

    def some(depth: int) -> str:
        if depth == 0:
            return rng.choice(["a", "b", ".", "[ab]", "[^a]"])
        kind = rng.randrange(4)
        if kind == 0:
            return some(depth - 1) + some(depth - 1)
        if kind == 1:
            return f"({some(depth - 1)}|{some(depth - 1)})"
        return f"({some(depth - 1)}){rng.choice(['*', '+', '?', '{2}', '{0,2}', '{1,}'])}"

    for _ in range(300):
        pattern = some(rng.randrange(4))
        ours, pythons = LinearPattern(pattern), re.compile(pattern, re.DOTALL)
        for text in ("".join(rng.choices("abc", k=rng.randrange(8))) for _ in range(10)):
            assert ours.matches(text) == bool(pythons.fullmatch(text)), (pattern, text)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(", ")", "a)", "*a", "a**", "[a", "a\\", r"\b", r"(a)\1", "(?=a)", "(?!a)", "(?<=a)", "(?i)a"),
        *("a^b", "a$b", "{2}", "a{2}{2}", "a{3,2}", "[b-a]", "a{501}", "((a{99}){99}){99}"),
        *("((){9999}){9999}", "(" * 99 + ")" * 99),
        "a" * 1_001,
    ],
)
def test_a_pattern_that_is_invalid_or_too_large_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        LinearPattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+", "(a|a)*", "(a|aa)+", "(.*)(.*)(.*)(.*)(.*)(.*)x", "(a*)*b"])
def test_a_hostile_pattern_takes_linear_time(pattern: str) -> None:
    """Python's matching would not end."""
    assert not LinearPattern(pattern).matches("a" * 2_000 + "!")

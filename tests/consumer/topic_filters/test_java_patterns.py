"""Patterns in Java's syntax, most of which Python's ``re`` reads in another way, or not at all."""

import pytest

from pyklient.consumer.topic_filters.java_patterns import java_pattern
from pyklient.consumer.topic_filters.pattern_syntax import PatternError

NAMES = ("a", "b", "c", "B", "1", "_", "-", ".", "a.b", "ab", "aa")


@pytest.mark.parametrize(
    ("pattern", "matching"),
    [
        ("[a-c&&[^b]]", ["a", "c"]),
        ("[^a-c&&[a-z]]", ["B", "1", "_", "-", "."]),
        ("[a[bc]]", ["a", "b", "c"]),
        ("[a-]", ["a", "-"]),
        ("\\Qa.b\\E", ["a.b"]),
        ("\\Qa.b", ["a.b"]),
        ("\\p{Lower}", ["a", "b", "c"]),
        ("\\P{L}", ["1", "_", "-", "."]),
        ("(?i)b", ["b", "B"]),
        ("a|(?i)b", ["a", "b", "B"]),
        ("(?i:b)|C", ["b", "B"]),
        ("(?i)[^b]", ["a", "c", "1", "_", "-", "."]),
        ("(?i)\\P{Upper}", ["1", "_", "-", "."]),
        ("(?<name>a)b", ["ab"]),
        ("(?!a).*", ["b", "c", "B", "1", "_", "-", "."]),
        ("\\x61|\\u0062|\\0143|\\x{31}", ["a", "b", "c", "1"]),
        ("a*+", ["a", "aa"]),
        ("a\\z|b\\Z", ["a", "b"]),
        ("^a$", ["a"]),
        ("\\w{2}", ["ab", "aa"]),
        ("}|]", []),
        ("", []),
    ],
)
def test_a_pattern_matches_the_names_that_it_matches_in_java(pattern: str, matching: list[str]) -> None:
    matcher = java_pattern(pattern)
    assert sorted(name for name in NAMES if matcher.matches(name)) == sorted(matching)


@pytest.mark.parametrize(
    "pattern", ["\\1", "(?x)a", "\\G", "\\y", "{2}", "[a&&]", "[&&a]", "a{", "a**", "\\b{g}"]
)
def test_what_is_not_supported_is_an_error_that_shows_the_pattern(pattern: str) -> None:
    with pytest.raises(PatternError, match="at position"):
        java_pattern(pattern)

"""Whitelists and blacklists: how a pattern is read, and which topics it selects."""

import pytest

from pyklient import Blacklist, Whitelist
from pyklient.consumer.topic_filters.topic_filter import TopicFilter
from pyklient.errors import ConfigurationError


def test_a_pattern_matches_whole_names() -> None:
    clicks = Whitelist("click.*")
    assert clicks.allows("clicks")
    assert not clicks.allows("my-clicks")
    assert not Whitelist("click").allows("clicks")


def test_a_blacklist_selects_what_its_pattern_does_not_match() -> None:
    assert Blacklist("test-.*").allows("clicks")
    assert not Blacklist("test-.*").allows("test-1")


def test_spaces_and_quotes_around_a_pattern_are_removed_and_commas_mean_or() -> None:
    assert Whitelist("\t 'a, b' ").pattern == "a|b"
    assert [topic for topic in ("a", "b", "a,b") if Whitelist("a,b").allows(topic)] == ["a", "b"]


def test_filters_are_equal_if_they_select_the_same_topics_by_the_same_pattern() -> None:
    same: list[TopicFilter] = [Whitelist("a,b"), Whitelist("a|b"), Blacklist("a|b")]
    assert len(set(same)) == 2
    assert same[0] == same[1] != same[2]
    assert repr(same[2]) == "Blacklist('a|b')"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[", "the pattern is not complete at its end"),
        ("a{1,3}", "a comma in a topic filter means 'or'"),
        ("(", "the pattern has a '[(]' without"),
        ("a)", "the pattern has a '[)]' without a '[(]'"),
        ("*", "'[*]' has nothing to repeat"),
        ("(?P<python>a)", "not supported"),
        ("a\\", "is not complete at its end"),
        ("(?<n>a)(?<n>b)", "two groups have the name 'n'"),
        ("[b-a]", "the range 'b-a' is empty"),
        ("\\x4", "needs the number of a character"),
        ("\\p{Unheard}", "not supported"),
        ("(?<=a*)b", "look-behind"),
        ("(" * 5_000 + ")" * 5_000, "more than 50 nested groups or classes"),
        ("[" * 5_000, "more than 50 nested groups or classes"),
        ("a{1000000}", "a count in '{…}' is too large"),
        ("((a{99}){99}){99}", "repeats a part too often, .* more than 5000 steps"),
    ],
)
def test_a_pattern_that_is_not_valid_is_an_error_with_the_reason(pattern: str, reason: str) -> None:
    for kind in (Whitelist, Blacklist):
        with pytest.raises(ConfigurationError, match=reason) as caught:
            kind(pattern)
        assert "is not a valid pattern" in str(caught.value)


def test_a_pattern_is_a_str() -> None:
    anything: object = b"a"
    with pytest.raises(TypeError, match="pattern of a Whitelist"):
        Whitelist(anything)  # type: ignore[arg-type]  # what a caller without a type checker may pass

"""Names are matched against patterns in a time that has a bound, and as Python's ``re`` matches them."""

import random
import re
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient.consumer.topic_filters.java_patterns import java_pattern
from tests.run.seed import dice

LONGEST = 249
"""The largest number of characters in the name of a topic."""

ATOMS = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", "\\w", "^", "$", "\\b", "\\B", "ab", "(?=a)", "(?<!b)"]
)


def _extended(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, max_size=4).map("".join),
        st.lists(inner, min_size=2, max_size=4).map(lambda each: f"(?:{'|'.join(each)})"),
        st.tuples(st.sampled_from(["(?:", "(?>", "(?=", "(?!"]), inner).map(
            lambda each: f"{each[0]}{each[1]})"
        ),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "*?", "+?", "{2,}"])).map(
            lambda each: f"(?:{each[0]}){each[1]}"
        ),
    )


PATTERNS = st.recursive(ATOMS, _extended, max_leaves=8)


@given(PATTERNS, st.lists(st.text("ab-", min_size=1, max_size=6), max_size=8))
def test_a_pattern_matches_the_names_that_it_matches_in_python(pattern: str, names: list[str]) -> None:
    matcher, expected = java_pattern(pattern), re.compile(pattern)
    assert [each for each in names if matcher.matches(each)] == [
        each for each in names if expected.fullmatch(each)
    ]


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+b",
        "(a|a)*b",
        "(a|aa)+b",
        "(a*)*b",
        "((a*)*)*b",
        "(.*a){30}b",
        ".*.*.*.*.*.*.*.*b",
        "(a?){249}a{249}b",
        "((a+)+)+b|((a+)+)+c",
        "(?:(?=(a+)+b).)*",
        "(?!(a+)+b).*b",
        "(?>(a+)+b|a)*b",
        "(?:a*)*+b",
        "|".join("a" * count for count in range(1, LONGEST)) + "b",
    ],
)
def test_a_pattern_with_many_ways_is_decided_soon(pattern: str) -> None:
    began = thread_time()
    assert not java_pattern(pattern).matches("a" * LONGEST)
    assert thread_time() - began < 5


def test_a_list_of_topics_with_a_common_beginning_is_read_once() -> None:
    names = [f"orders-of-country-{number}" for number in range(1_000)]
    matcher = java_pattern("|".join(names))
    began = thread_time()
    assert [
        each for each in (*names, "orders-of-country-", "orders-of-country-1000") if matcher.matches(each)
    ] == names
    assert thread_time() - began < 1


def test_random_nested_repeats_are_decided_soon() -> None:
    chance = dice("nested repeats")
    patterns = [nested(chance, 0) for _ in range(25)]
    began = thread_time()
    for each in patterns:
        assert not java_pattern(each + "c").matches("".join(chance.choices("ab", k=LONGEST)))
    assert thread_time() - began < 20


def nested(chance: random.Random, depth: int) -> str:
    """Return a pattern in which repeats contain repeats."""
    if depth == 4:
        return chance.choice(["a", "b", ".", "[ab]", "ab"])
    inner = "".join(nested(chance, depth + 1) for _ in range(chance.randint(1, 2)))
    return f"({inner}|{nested(chance, depth + 1)}){chance.choice(['*', '+', '*?', '{2}', '?'])}"

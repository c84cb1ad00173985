"""Filters select the topics that the filters of Scala's high-level consumer select."""

import random
import re
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final

import pytest

from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.topic_filters.topic_filter import Blacklist, TopicFilter, Whitelist
from pyklient.errors import ConfigurationError
from tests.oracles.process import Oracle
from tests.run.seed import dice

pytestmark = pytest.mark.java

_PATTERNS: Final = 1_500
_TOPICS: Final = ("white1", "white2", "white22", "black1", "black2", "__consumer_offsets")
_KINDS: Final[dict[str, type[TopicFilter]]] = {"whitelist": Whitelist, "blacklist": Blacklist}
_INVALID: Final = "invalid"

_LETTERS: Final = ["a", "b", "A", "1", "-", "_", "\\.", ".", "}", "#", "&", "/", "é"]
_ESCAPES: Final = [
    "\\d",
    "\\W",
    "\\p{Lower}",
    "\\P{Upper}",
    "\\pN",
    "\\x61",
    "\\u0062",
    "\\0141",
    "\\Qa.b\\E",
    "\\-",
]
_CLASSES: Final = [
    *("[ab]", "[^a]", "[a-c]", "[a-c&&[^b]]", "[^a-c&&b]", "[a[bc]]", "[^a[bc]]", "[]a]", "[a-]", "[-a]"),
    *("[\\w&&[^\\d]]", "[a\\-c]", "[&a]", "[a&b]", "[\\p{Upper}a]", "[A-z]", "[a-z&&[b]c]", "["),
]
_OTHERS: Final = [
    "(?i)",
    "(?i:a)",
    "(?-i)",
    "(?!a)",
    "(?<=a)",
    "(?>a)",
    "(?<n>a)",
    ",",
    " ",
    '"',
    "'",
    "^",
    "$",
    "\\z",
]
_COUNTS: Final = ["{2}", "{1,2}", "{2}+", "{1,2}+"]
_QUANTIFIERS: Final = ["*", "+", "?", "*?", "+?", "*+", "?+"]
_MAY_READ_NOTHING: Final = re.compile(r"[*?^$]|\\z")


@pytest.fixture(scope="module", params=["0.8.2.2", "0.10.2.2"])
def oracle(request: pytest.FixtureRequest) -> Iterator[Oracle]:
    with Oracle(request.param, "TopicFilterOracle.java") as oracle:
        yield oracle


def scalas(oracle: Oracle, kind: str, pattern: str, topics: Sequence[str], *, hides: bool = True) -> str:
    [answer] = oracle.ask(["\t".join((kind, str(hides).lower(), pattern, *topics))])
    return answer


def ours(kind: str, pattern: str, topics: Sequence[str], *, hides: bool = True) -> str:
    """Return what our filter selects, as the oracle writes it."""
    try:
        chosen = _KINDS[kind](pattern)
    except ConfigurationError:
        return _INVALID
    subscription = Subscription(topic_filter=chosen, shared_streams=1, hides_internal=hides)
    return "\t".join((chosen.pattern, "", *(topic for topic in topics if subscription.selects(topic))))


@pytest.mark.parametrize("hides", [True, False])
@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize(
    "pattern",
    [
        "white1,white2",
        ".+",
        " \"'white1, white2'\" ",
        "white1|white2",
        "[",
        "black1",
        "white.",
        "__.*",
        "",
        "*",
    ],
)
def test_rows_10_to_12_a_filter_selects_what_scalas_filter_selects(
    oracle: Oracle, kind: str, pattern: str, hides: bool
) -> None:
    theirs = scalas(oracle, kind, pattern, _TOPICS, hides=hides)
    assert ours(kind, pattern, _TOPICS, hides=hides) == theirs


def pattern(chance: random.Random, depth: int = 0) -> str:
    """Return a pattern that is often valid.

    No pattern counts the repetitions of a group that may read nothing, such as ``(a|^){2}``: Java takes one
    repetition that reads nothing for all of them, which our matcher does not do.
    """
    parts = []
    for _ in range(chance.randint(1, 4)):
        if depth < 2 and chance.random() < 0.25:
            part = f"({pattern(chance, depth + 1)}|{pattern(chance, depth + 1)})"
        else:
            part = chance.choice(chance.choice((_LETTERS, _LETTERS, _ESCAPES, _CLASSES, _OTHERS)))
        counts = [] if part.startswith("(") and _MAY_READ_NOTHING.search(part) else _COUNTS
        parts.append(part + (chance.choice(_QUANTIFIERS + counts) if chance.random() < 0.3 else ""))
    return "".join(parts)


@pytest.mark.parametrize(
    "pattern",
    [
        "((?i:a)||\\pN?)*+.",
        "(?>(|1|a)*1)",
        "(?>(a||1)*1)",
        "(?>(a||1)*?1)",
        "(a|ab){2}+b",
        "(ab?){1,2}+b",
        "(a|b|)++1",
    ],
)
def test_a_repetition_that_reads_nothing_or_is_possessive_ends_as_in_java(
    oracle: Oracle, pattern: str
) -> None:
    names = ["".join(each) for size in range(1, 5) for each in product("aAb1", repeat=size)]
    assert ours("whitelist", pattern, names) == scalas(oracle, "whitelist", pattern, names)


def test_a_random_pattern_matches_what_it_matches_in_java(oracle: Oracle) -> None:
    chance = dice("patterns")
    cases = [
        (pattern(chance), ["".join(chance.choices("aabbcAB1._-", k=chance.randint(1, 5))) for _ in range(20)])
        for _ in range(_PATTERNS)
    ]
    theirs = oracle.ask("\t".join(("whitelist", "true", given, *topics)) for given, topics in cases)
    found = [(given, ours("whitelist", given, topics)) for given, topics in cases]
    assert [
        (*each, answer)
        for each, answer in zip(found, theirs, strict=True)
        if each[1] not in (answer, _INVALID)
    ] == []
    valid = [answer for answer in theirs if answer != _INVALID]
    rejected = sum(each == _INVALID for _, each in found) - (len(theirs) - len(valid))
    assert len(valid) > _PATTERNS / 3
    assert rejected < len(valid) / 10, "the documented parts of Java's syntax that are errors here are rare"

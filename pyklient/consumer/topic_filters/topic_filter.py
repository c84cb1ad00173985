"""Topic filters: regular expressions that select topics by name, as in the consumer of Kafka 0.8."""

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import ClassVar, Final

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.net.lookups.find_coordinator import OFFSETS_TOPIC
from pyklient.registry.subscription_patterns import BLACK_LIST, WHITE_LIST

__all__ = ["INTERNAL_TOPICS", "Blacklist", "TopicFilter", "Whitelist"]

INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, "__transaction_state", "__share_group_state"})
"""The topics in which brokers keep their own data. Brokers before 0.10 do not say which topics these are."""

_REMEMBERED: Final = 20_000
"""The number of topic names for which a filter stores whether its pattern matches."""
_QUOTES: Final = "\"'"
_BLANKS: Final = "".join(map(chr, range(33)))  # what Java's trim() removes


class TopicFilter(ABC):
    """A regular expression over the names of topics: a Whitelist or a Blacklist.

    The pattern is cleaned as in the consumer of Kafka 0.8: spaces and surrounding quotes are removed, and a
    comma means "or". The pattern must match the whole name of a topic. Raises ConfigurationError if the
    pattern is not valid.
    """

    kind: ClassVar[str]
    """The name of this kind of filter in the nodes that members register in ZooKeeper."""

    def __init__(self, pattern: str) -> None:
        # Only programs that use a filter need the parser.
        from pyklient.consumer.topic_filters.java_patterns import java_pattern
        from pyklient.consumer.topic_filters.pattern_syntax import PatternError

        given = argument_checks.text(pattern, f"the pattern of a {type(self).__name__}")
        self.pattern: Final = given.strip(_BLANKS).replace(",", "|").replace(" ", "").strip(_QUOTES)
        """The pattern as it is used, without spaces and quotes, and with ``|`` instead of commas."""
        try:
            matcher = java_pattern(self.pattern)
        except PatternError as error:
            raise ConfigurationError(
                f"{pattern!r} is not a valid pattern for topics: {error}; give a regular expression such as "
                "'clicks|views.*'"
            ) from None
        self._matches = lru_cache(_REMEMBERED)(matcher.matches)  # Each refresh of the metadata asks again.

    @abstractmethod
    def allows(self, topic: str) -> bool:
        """Return True if the filter selects *topic*."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pattern!r})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, TopicFilter) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash((type(self), self.pattern))


class Whitelist(TopicFilter):
    """Selects the topics whose names match the pattern, e.g. ``Whitelist("clicks|views.*")``."""

    kind = WHITE_LIST

    def allows(self, topic: str) -> bool:
        """Return True if the pattern matches the whole name *topic*."""
        return self._matches(topic)


class Blacklist(TopicFilter):
    """Selects the topics whose names do not match the pattern, e.g. ``Blacklist("test-.*")``."""

    kind = BLACK_LIST

    def allows(self, topic: str) -> bool:
        """Return True unless the pattern matches the whole name *topic*."""
        return not self._matches(topic)

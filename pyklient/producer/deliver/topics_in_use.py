"""The topics that a producer sends to. This module finds the idle topics, and those that do not exist."""

import time
from collections.abc import Collection
from typing import Final

from pyklient.error_codes import ErrorCode
from pyklient.net.metadata import Metadata

__all__ = ["GONE_AFTER", "TopicsInUse"]

GONE_AFTER: Final = 5.0
"""If all responses in this number of seconds say that a topic does not exist, ``close`` assumes that the
topic was deleted.

A broker that has just started may not know a topic yet, and a topic may be deleted and created again. Both
states last less than this time. While the producer is not closing, records wait for their topic until
``delivery_timeout_ms``, as in Java's client.
"""


class TopicsInUse:
    """The time when each topic was last used, and the time since which a topic is missing. *max_idle* is in
    seconds."""

    def __init__(self, max_idle: float) -> None:
        self._max_idle = max_idle
        self.last_used: dict[str, float] = {}
        """The time when the sender last got a new batch of each topic. If the sender has got no batch of a
        topic, the time when the topic was first seen."""
        self._missing_since: dict[str, float] = {}

    def forget_idle(self, known: Collection[str], busy: Collection[str]) -> set[str]:
        """Forget the topics that are idle, and return them.

        A topic is idle if it is not in *busy*, and was not used for ``metadata_max_idle_ms``. *known* has all
        topics for which the producer keeps state.
        """
        now = time.monotonic()
        candidates = {*known, *self.last_used}.difference(busy)
        last_used = {topic: self.last_used.setdefault(topic, now) for topic in candidates}
        idle = {topic for topic, used in last_used.items() if now - used >= self._max_idle}
        for topic in idle:
            del self.last_used[topic]
        return idle

    def note_missing(self, topics: Collection[str], metadata: Metadata) -> None:
        """Record which of *topics* do not exist according to *metadata*, which a broker has just sent."""
        now = time.monotonic()
        answers = {topic: metadata.topics.get(topic) for topic in topics}
        self._missing_since = {
            topic: self._missing_since.get(topic, now)
            for topic, info in answers.items()
            if info is not None and info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }

    def is_gone(self, topic: str) -> bool:
        """Return True if all responses in the last ``GONE_AFTER`` seconds have said that *topic* does not
        exist."""
        now = time.monotonic()
        return now - self._missing_since.get(topic, now) >= GONE_AFTER

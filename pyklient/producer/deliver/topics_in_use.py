"""The topics that a producer sends to: which can be forgotten, and which do not exist."""

import time
from collections.abc import Collection
from typing import Final

from pyklient.error_codes import ErrorCode
from pyklient.net.metadata import Metadata

__all__ = ["GONE_AFTER", "TopicsInUse"]

GONE_AFTER: Final = 5.0
"""Seconds for which every response must have said that a topic does not exist before ``close`` believes it.

A broker that has just started may not know a topic yet, and a topic may be deleted and created again. Both
take less time. Without ``close``, records wait for their topic until ``delivery_timeout_ms``, as they do in
Java's client."""


class TopicsInUse:
    """Notes when topics were used and since when they are missing. *max_idle* is in seconds."""

    def __init__(self, max_idle: float) -> None:
        self._max_idle = max_idle
        self.last_used: dict[str, float] = {}
        """When a batch for the topic was begun last, which the sender notes, or when it was first seen."""
        self._missing_since: dict[str, float] = {}

    def forget_idle(self, known: Collection[str], busy: Collection[str]) -> set[str]:
        """Return the topics that are idle: not *busy*, and not used for ``metadata_max_idle_ms``.

        *known* are the topics for which something is kept. The idle ones are forgotten here.
        """
        now = time.monotonic()
        candidates = {*known, *self.last_used}.difference(busy)
        last_used = {topic: self.last_used.setdefault(topic, now) for topic in candidates}
        idle = {topic for topic, used in last_used.items() if now - used >= self._max_idle}
        for topic in idle:
            del self.last_used[topic]
        return idle

    def note_missing(self, topics: Collection[str], metadata: Metadata) -> None:
        """Note which of *topics* do not exist according to *metadata*, which a broker has just sent."""
        now = time.monotonic()
        answers = {topic: metadata.topics.get(topic) for topic in topics}
        self._missing_since = {
            topic: self._missing_since.get(topic, now)
            for topic, info in answers.items()
            if info is not None and info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        }

    def is_gone(self, topic: str) -> bool:
        """Return True if every response in ``GONE_AFTER`` seconds has said that *topic* does not exist."""
        now = time.monotonic()
        return now - self._missing_since.get(topic, now) >= GONE_AFTER

"""Tells whether a topic of a mirror's source cluster was deleted."""

import logging
import time
from typing import Final

from pyklient.admin import Admin
from pyklient.errors import KafkaError
from pyklient.topic_partition import TopicPartition

__all__ = ["DeletedTopics"]

_log = logging.getLogger("pyklient.mirror")

_SURELY_GONE: Final = 10.0
"""The seconds for which a topic must be missing before it counts as deleted. A broker that has just started
may not know all topics yet."""


class DeletedTopics:
    """The topics that are missing in the cluster of *admin*. Only one thread uses this object."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._missing_since: dict[str, float] = {}

    def has(self, partition: TopicPartition) -> bool:
        """Return True, and log a warning, if the topic of *partition* was deleted. It counts as deleted if
        all calls of the last ten seconds have found that it is missing. Return False if the cluster cannot be
        asked."""
        topic = partition.topic
        try:
            missing = topic not in self._admin.topics(internal=True)
        except KafkaError:
            missing = False
        if not missing:
            self._missing_since.pop(topic, None)
            return False
        now = time.monotonic()
        if now - self._missing_since.setdefault(topic, now) < _SURELY_GONE:
            return False
        _log.warning(
            "the last records of %s are not mirrored, because neither cluster has the topic any more",
            partition,
        )
        return True

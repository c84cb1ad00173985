"""Decides how long a member waits if another ZooKeeper session already has a node of the member's name. This
may be an earlier session of the same member, which ends soon."""

import time
from typing import Final

from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember

__all__ = ["FormerSession"]

_TIMEOUTS: Final = 2.0
"""The number of session time-outs for which a member waits until an earlier session of the same member ends.
If a member was killed, ZooKeeper deletes its node after little more than one time-out."""


class FormerSession:
    """Decides how long *member* waits if another ZooKeeper session already has a node of its name. This may
    be an earlier session of the same member. *session_timeout* is in seconds."""

    def __init__(self, member: ZooKeeperMember, session_timeout: float) -> None:
        self._member = member
        self._longest = session_timeout * _TIMEOUTS
        self._seen_since: float | None = None

    def seen(self) -> None:
        """Remember that another session has a node of the member's name. Raise RegistryError if such a node
        was first seen so long ago that it cannot belong to an earlier session of the same member."""
        now = time.monotonic()
        self._seen_since = self._seen_since or now
        if now - self._seen_since > self._longest:
            raise self._member.name_taken()

    def ended(self) -> None:
        """Remember that no other session has a node of the member's name any more."""
        self._seen_since = None

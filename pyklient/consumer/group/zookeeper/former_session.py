"""Decides how long a member waits if its node exists already in ZooKeeper, in another session. This may be an
earlier session of the same member, which ends soon."""

import time
from typing import Final

from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember

__all__ = ["FormerSession"]

_TIMEOUTS: Final = 2.0
"""A member waits for this many session time-outs until an earlier session of the same member ends. If a
member was killed, ZooKeeper deletes its node after little more than one time-out."""


class FormerSession:
    """Decides how long *member* waits if its node exists already in ZooKeeper, in another session, which may
    be an earlier session of the same member. *session_timeout* is in seconds."""

    def __init__(self, member: ZooKeeperMember, session_timeout: float) -> None:
        self._member = member
        self._longest = session_timeout * _TIMEOUTS
        self._seen_since: float | None = None

    def seen(self) -> None:
        """Record that the member's node exists in another session. Raise RegistryError if it has existed for
        so long that it cannot belong to an earlier session of the same member."""
        now = time.monotonic()
        self._seen_since = self._seen_since or now
        if now - self._seen_since > self._longest:
            raise self._member.name_taken()

    def ended(self) -> None:
        """Record that the member's node does not exist in another session any more."""
        self._seen_since = None

"""Decides how long a member waits for the end of a former session that still has a node with the member's
name."""

import time
from typing import Final

from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember

__all__ = ["FormerSession"]

_TIMEOUTS: Final = 2.0
"""The number of session time-outs for which a member waits. The node of a member that was killed is deleted
after little more than one time-out."""


class FormerSession:
    """Decides how long *member* waits for another session, which has a node with the member's name and may be
    a former session of this member. *session_timeout* is in seconds."""

    def __init__(self, member: ZooKeeperMember, session_timeout: float) -> None:
        self._member = member
        self._longest = session_timeout * _TIMEOUTS
        self._seen_since: float | None = None

    def seen(self) -> None:
        """Note that another session has a node with the member's name. Raise RegistryError if that session
        lasts for so long that it cannot be a former session of the member."""
        now = time.monotonic()
        self._seen_since = self._seen_since or now
        if now - self._seen_since > self._longest:
            raise self._member.name_taken()

    def ended(self) -> None:
        """Note that no other session has a node with the member's name."""
        self._seen_since = None

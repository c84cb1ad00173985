"""Decides how long a member waits for the end of a former session that still has a node of its name."""

import time
from typing import Final

from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember

__all__ = ["FormerSession"]

_TIMEOUTS: Final = 2.0
"""The number of session time-outs for which a member waits. A member that was killed leaves a node of its
name for little more than one time-out."""


class FormerSession:
    """The wait of *member* for a session that has a node of the member's name, and that may be the member's
    own former session. *session_timeout* is in seconds."""

    def __init__(self, member: ZooKeeperMember, session_timeout: float) -> None:
        self._member = member
        self._longest = session_timeout * _TIMEOUTS
        self._seen_since: float | None = None

    def seen(self) -> None:
        """Note that another session has a node of the member's name. Raise RegistryError if it has had that
        node for so long that it is no former session of the member."""
        now = time.monotonic()
        self._seen_since = self._seen_since or now
        if now - self._seen_since > self._longest:
            raise self._member.name_taken()

    def ended(self) -> None:
        """Note that no other session has a node of the member's name."""
        self._seen_since = None

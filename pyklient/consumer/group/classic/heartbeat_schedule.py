"""The schedule of a member's heartbeats: when the next one is due, and which event follows from its
response."""

import logging
import time

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.classic.heartbeat_and_leave import heartbeat
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.classic.states import Event
from pyklient.errors import ClosedError, KafkaError
from pyklient.net.dialogue_player import DialoguePlayer
from pyklient.outage import Outage

__all__ = ["HeartbeatSchedule"]

log = logging.getLogger("pyklient.consumer")

_LONGEST_DELAY = 0.5
"""The seconds by which the group thread may be late on a busy machine. A longer delay counts as a suspension
of the process."""


class HeartbeatSchedule:
    """Sends the heartbeats of *member* when they are due. Only the group thread uses this object."""

    def __init__(self, config: ConsumerConfig, member: Member, dialogues: DialoguePlayer) -> None:
        self._member = member
        self._dialogues = dialogues
        self._outage = Outage(
            log,
            f"heartbeats of group {member.group_id}",
            "heartbeat_outage",
            level=logging.INFO,
            group=member.group_id,
        )
        self._timeout = min(config.session_timeout_ms, config.request_timeout_ms) / 1000
        self.interval = config.heartbeat_interval_ms / 1000
        """The seconds between two heartbeats."""
        self.due_at = self._ran_at = time.monotonic()
        """The time of the next heartbeat, in seconds of ``time.monotonic``."""

    def postpone(self) -> None:
        """Make the next heartbeat due one interval from now."""
        self._ran_at = time.monotonic()
        self.due_at = self._ran_at + self.interval

    def begin(self) -> None:
        """Make the first heartbeat of a generation due one interval from now. If the member's session may end
        before that, make the heartbeat due now."""
        self.postpone()
        if self._member.confirmed_until <= self.due_at:
            self.due_at = self._ran_at

    def slept_too_long(self) -> bool:
        """Return True if the group thread has not run for longer than ``session_timeout_ms``. In this case
        the process or the machine was suspended, and the group has surely removed the member."""
        before, self._ran_at = self._ran_at, time.monotonic()
        slept = self._ran_at - before
        if slept <= self._member.session_timeout_ms / 1000 + _LONGEST_DELAY:
            return False
        log.warning(
            "group %s: this process did not run for %.1f s, which is longer than session_timeout_ms=%d, so "
            "other members have its partitions now; this member gives the partitions up and joins again",
            self._member.group_id,
            slept,
            self._member.session_timeout_ms,
        )
        return True

    def send(self) -> Event | None:
        """Send one heartbeat. Return the event that follows from the response, such as Event.LOST, or None
        if nothing has changed."""
        self.postpone()
        try:
            event = self._dialogues.play(heartbeat(self._member), self._timeout)
        except ClosedError:
            self._dialogues.check_open()  # otherwise only a connection was closed
            return None
        except KafkaError as error:
            if not error.retriable:
                raise
            self._outage.failed(error, "the next heartbeat follows")
            return None
        self._outage.ended()
        return event

"""The attempts of a member of a ZooKeeper group to rebalance: how many there were, when the next one is due,
and why the last one failed."""

import time

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.counted import counted
from pyklient.errors import KafkaError, RebalanceFailedError

__all__ = ["Attempts"]


class Attempts:
    """Counts the attempts of a member to rebalance, in rounds of ``rebalance_max_retries`` attempts at most.

    After each attempt that fails there is a pause of ``rebalance_backoff_ms``. The pause after the last
    attempt of a round is longer by the factor ``rebalance_max_retries``.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self.backoff = config.rebalance_backoff_ms / 1000
        self._most = config.rebalance_max_retries
        self.count = 0
        """The number of attempts that this round has made so far."""
        self.failure: KafkaError | None = None
        """The error of the last attempt. None if it failed only because other members owned partitions."""
        self._due_at = 0.0

    @property
    def over(self) -> bool:
        """True if this round has no further attempts."""
        return self.count >= self._most

    @property
    def duration(self) -> float:
        """The seconds from the first to the last attempt of a round."""
        return self.backoff * (self._most - 1)

    @property
    def wait(self) -> float:
        """The number of seconds until the next attempt is due. It is 0 or less if the attempt is due
        already."""
        return self._due_at - time.monotonic()

    def begin_round(self) -> None:
        """Begin a new round: set the number of attempts to 0."""
        self.count = 0

    def begin(self) -> None:
        """Count an attempt that begins now."""
        self.count += 1
        self.failure = None

    def pause(self) -> float:
        """Set the time of the next attempt, after an attempt has failed. Return the seconds until then."""
        seconds = self.backoff * (self._most if self.over else 1)
        self._due_at = time.monotonic() + seconds
        return seconds

    def error(self, member: ZooKeeperMember) -> RebalanceFailedError:
        """Return the error that says why the last attempt of *member* has failed."""
        failed = (
            f"Member {member.consumer_id} of group {member.group_id} could not rebalance in "
            f"{counted(self.count, 'attempt')}"
        )
        if self.failure is not None:
            return RebalanceFailedError(f"{failed}. The last attempt failed with: {self.failure}")
        return RebalanceFailedError(
            f"{failed}, because other members have not given "
            f"their partitions back: {member.waits_for}. Increase rebalance_max_retries or "
            "rebalance_backoff_ms, so that the attempts take longer than the session time-out of a member "
            "that was killed. If one of these members does not run any more, delete its owner nodes in "
            "ZooKeeper"
        )

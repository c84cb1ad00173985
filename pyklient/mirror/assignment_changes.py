"""Changes to the partitions that are assigned to one task of a mirror. The rebalance thread asks
for a change, and the thread of the task makes it."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from queue import Empty, SimpleQueue
from typing import Final

from pyklient.consumer.group.rebalance_listener import ConsumerRebalanceListener
from pyklient.topic_partition import TopicPartition

__all__ = ["AssignmentChange", "AssignmentChanges"]

_log = logging.getLogger("pyklient.mirror")

_CHANGE_TIMEOUT: Final = 45.0
"""The seconds for which a rebalance waits until the task has committed the offsets of revoked partitions."""
_LONGEST_WAIT: Final = 0.2
"""The seconds after which a waiting rebalance checks if the task has ended."""


class AssignmentChange:
    """A change of the assignment: *partitions* were *assigned*, or are about to be *revoked*. If neither is
    true, they were lost."""

    def __init__(
        self, partitions: Collection[TopicPartition], *, assigned: bool = False, revoked: bool = False
    ) -> None:
        self.partitions = partitions
        self.assigned = assigned
        self.revoked = revoked
        self.done = threading.Event()
        """An event that is set when the change is made."""
        self.expired = False
        """True if the rebalance has stopped waiting for this change. Revoked partitions then count as lost:
        other members may own them already."""

    def expire(self) -> None:
        """Record and log that the rebalance has stopped waiting for this change."""
        self.expired = True
        _log.warning(
            "the mirror has not committed the offsets of its revoked partitions within %g s, and the "
            "rebalance does not wait for this commit any longer; some records of these partitions may be "
            "copied again",
            _CHANGE_TIMEOUT,
        )


class AssignmentChanges(ConsumerRebalanceListener):
    """The rebalance listener of the consumer with which a task of a mirror reads. *make* is the function that
    makes one change.

    The thread of the task calls ``make_all`` often while ``task_makes_them`` is true. Otherwise, the
    rebalance thread makes the changes itself.
    """

    def __init__(self, make: Callable[[AssignmentChange], None]) -> None:
        self.task_makes_them = False
        self.has_assignment = False
        """True while the member has an assignment, even an empty one. False before the first assignment and
        during a rebalance. It does not change after the task has ended."""
        self._make = make
        self._waiting: SimpleQueue[AssignmentChange] = SimpleQueue()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Begin to copy *partitions* from their committed offsets."""
        self.has_assignment = True
        self._ask(AssignmentChange(partitions, assigned=True))

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """In each of *partitions*, commit the offset up to which all copies are confirmed. Another member
        then continues from this offset."""
        self._has_none()
        self._ask(AssignmentChange(partitions, revoked=True))

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Forget *partitions*, which another member may copy already."""
        self._has_none()
        self._ask(AssignmentChange(partitions))

    def make_all(self) -> None:
        """Make the changes for which the rebalance thread waits."""
        while True:
            try:
                change = self._waiting.get_nowait()
            except Empty:
                return
            try:
                self._make(change)
            finally:
                change.done.set()

    def _has_none(self) -> None:
        if self.task_makes_them:
            self.has_assignment = False

    def _ask(self, change: AssignmentChange) -> None:
        if not change.partitions:
            return
        self._waiting.put(change)
        deadline = time.monotonic() + _CHANGE_TIMEOUT
        while time.monotonic() < deadline and not change.done.wait(_LONGEST_WAIT):
            if not self.task_makes_them:
                self.make_all()
        if not change.done.is_set():
            change.expire()

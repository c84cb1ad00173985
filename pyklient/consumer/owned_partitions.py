"""Ownership: which partitions this client owns, until when it may hand out their messages, and the identity
under which it commits their offsets.

This module makes no decisions. A membership decides which partitions the client owns, and the assignment
handler records the decision here. Commits, cursors and streams read it.
"""

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import NamedTuple

from pyklient.kernel import Lease
from pyklient.metrics.consumer_counts import RebalanceCounts
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = [
    "NOBODY",
    "Assignment",
    "LookedUp",
    "MemberIdentity",
    "OwnedPartition",
    "Ownership",
    "PartlyCommitted",
]


class MemberIdentity(NamedTuple):
    """The identity under which a member of a group commits. Without a group, the generation is -1."""

    generation: int = -1
    member_id: str = ""
    instance_id: str | None = None


NOBODY = MemberIdentity()


class LookedUp(NamedTuple):
    """The offset that was looked up for a partition because of ``auto_offset_reset``, and the id that the
    topic had at that time.

    The offset is not valid in a topic that was deleted and created again under the same name.
    """

    offset: int
    topic_id: bytes


class PartlyCommitted(OffsetAndMetadata):
    """A committed offset that only one of the group's two offset storages (Kafka and ZooKeeper) has.

    Reading begins at this offset. The offset is committed again, to both storages, even if no message is
    read.
    """

    __slots__ = ()


class OwnedPartition:
    """A partition that this client owns, from the moment it is assigned until it is revoked.

    When the partition is revoked, ``active`` becomes false. Threads that work for the partition check
    ``active``, and stop. The assignment handler changes ``active`` and ``lost``; the leader lookup changes
    ``looked_up``; the user's program changes ``paused``. A thread that changes ``held_back`` holds the
    stream's lock.
    """

    __slots__ = (
        "active", "committed", "generation", "held_back", "looked_up", "lost", "partition", "paused",
        "reached", "since",
    )  # fmt: skip

    def __init__(
        self,
        partition: TopicPartition,
        *,
        generation: int = -1,
        since: int | None = None,
        committed: OffsetAndMetadata | None = None,
        looked_up: LookedUp | None = None,
        reached: int | None = None,
        paused: bool = False,
    ) -> None:
        self.partition = partition
        self.generation = generation
        """The generation in which the partition was assigned."""
        self.since = generation if since is None else since
        """The generation since which the client has owned the partition without a gap. It is older than
        ``generation`` if the partition was revoked and assigned to this client again at once."""
        self.committed = committed
        """The committed offset at which reading begins. None if no offset was committed."""
        self.looked_up = looked_up
        """The offset that was looked up because of ``auto_offset_reset``. None if no offset has been looked
        up."""
        self.reached = reached
        """The position that this client had reached, if the partition was revoked and at once assigned to it
        again. Reading continues at this position. None in all other cases, and if no message had been
        handed out."""
        self.active = True
        """True until the partition is revoked or lost."""
        self.lost = False
        """True if the group gave the partition to another member without waiting for this client. Its offsets
        cannot be committed any more."""
        self.held_back = False
        """True while the rebalance listener handles the assignment of the partition. The partition is not
        fetched before the listener has returned."""
        self.paused = paused
        """True after the user has paused the partition, until it is resumed. A paused partition is not
        fetched, and its messages are not handed out."""

    @property
    def start(self) -> int | None:
        """The offset at which reading begins. None if it has not been looked up yet."""
        if self.reached is not None:
            return self.reached
        if self.committed is not None:
            return self.committed.offset
        return None if self.looked_up is None else self.looked_up.offset

    @property
    def committed_offset(self) -> int | None:
        """The committed offset at which reading begins. None if no offset was committed, or if only one of
        two offset storages has it."""
        if self.committed is None or isinstance(self.committed, PartlyCommitted):
            return None
        return self.committed.offset

    @property
    def start_to_commit(self) -> int | None:
        """The offset at which reading begins, if it is still to be committed. None if it is committed or is
        the position in ``reached``, or if it has not been looked up yet."""
        return self.start if self.committed_offset is None and self.reached is None else None

    @property
    def looked_up_start(self) -> LookedUp | None:
        """The offset that was looked up. None if reading begins at another offset."""
        return self.looked_up if self.committed is None and self.reached is None else None


class Assignment:
    """The partitions that the client owns under one identity.

    The identity and the partitions never change: a new assignment is a new object. So a thread always sees an
    identity together with the partitions that belong to it.
    """

    __slots__ = ("identity", "partitions")

    def __init__(
        self,
        identity: MemberIdentity = NOBODY,
        partitions: Mapping[TopicPartition, OwnedPartition] = MappingProxyType({}),
    ) -> None:
        self.identity = identity
        self.partitions = partitions

    def holds(self, partition: TopicPartition, generation: int) -> bool:
        """Return True if the client owns *partition*, and has owned it since *generation*."""
        owned = self.partitions.get(partition)
        return owned is not None and owned.since <= generation

    def start(self, partition: TopicPartition) -> int | None:
        """Return the offset at which reading of *partition* begins. Return None if it has not been looked up
        yet."""
        return self.partitions[partition].start

    def to_commit(self, partition: TopicPartition, offset: int, leader_epoch: int = -1) -> OffsetAndMetadata:
        """Return *offset* of *partition* as a position to commit. If this offset is committed already, the
        position keeps the committed metadata and leader epoch. Otherwise it has *leader_epoch* and no
        metadata."""
        owned = self.partitions.get(partition)
        stored = None if owned is None else owned.committed
        if stored is not None and stored.offset == offset:
            return stored
        return OffsetAndMetadata(offset, leader_epoch=leader_epoch)


class Ownership:
    """The newest assignment of a client. Only its assignment handler changes it."""

    def __init__(self) -> None:
        self.assignment: Assignment | None = None
        """The newest assignment. None before the first assignment. Revoked partitions stay in it until the
        next assignment replaces it, because their offsets may still be committed."""
        self.rebalancing = False
        """True from the moment partitions are revoked until the next assignment begins."""
        self.ended = False
        """True if there will be no further assignment."""
        self.failure: Exception | None = None
        """The error that has ended the membership. None if no error has ended it."""
        self.lease = Lease()
        """The time until which messages may be handed out. By default there is no limit. A membership may set
        a limit, and moves it forward as long as the group knows this member."""
        self.counts = RebalanceCounts()
        self._changing: list[threading.Thread] = []
        """The threads that are changing the assignment now. A thread may be in this list more than once,
        because a rebalance listener may be called while its thread changes the assignment."""

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Mark this thread, in a ``with`` block, as a thread that changes the assignment.

        Code in the block must not wait until the assignment has changed, because it would wait for ever.
        """
        thread = threading.current_thread()
        self._changing.append(thread)
        try:
            yield
        finally:
            self._changing.remove(thread)

    def changes_here(self) -> bool:
        """Return True if the calling thread is changing the assignment now, as in a call of a rebalance
        listener."""
        return threading.current_thread() in self._changing

    def after(
        self,
        identity: MemberIdentity,
        starts: Mapping[TopicPartition, OffsetAndMetadata | None],
        reached: Mapping[TopicPartition, int] = MappingProxyType({}),
        found: Mapping[TopicPartition, int] = MappingProxyType({}),
    ) -> Assignment:
        """Return the next assignment, under *identity*: the partitions that are active now, and those in
        *starts*.

        *starts* maps each newly assigned partition to its committed offset, or to None. Reading begins at the
        committed offset. A partition that the client also owned in the previous generation begins at its
        position in *reached* instead. *found* has offsets that were looked up: a partition without a
        committed offset begins there.
        """
        before = self.assignment or Assignment()
        # A generation in between was another member's.
        follows = before.identity.generation >= identity.generation - 1
        goes_on = before.identity.generation == identity.generation - 1
        partitions = {each: owned for each, owned in before.partitions.items() if owned.active}
        for partition, committed in starts.items():
            old = before.partitions.get(partition) if follows else None
            partitions[partition] = OwnedPartition(
                partition,
                generation=identity.generation,
                since=None if old is None else old.since,
                committed=committed,
                looked_up=_looked_up(old, found.get(partition)),
                reached=reached.get(partition) if old is not None and goes_on else None,
                paused=old is not None and old.paused,
            )
        return Assignment(identity, partitions)

    def begin(self, assignment: Assignment) -> None:
        """Replace the assignment by *assignment*."""
        self.assignment = assignment
        self.rebalancing = False
        self.counts.end()

    def revoke(
        self, partitions: Collection[TopicPartition], identity: MemberIdentity | None = None
    ) -> list[OwnedPartition]:
        """Make *partitions* inactive, and return those that were active.

        If *identity* is given, the offsets of the client's partitions are committed under that identity from
        now on.
        """
        self.counts.begin()
        before = self.assignment
        if before is None:
            return []
        revoked = [
            owned
            for each in partitions
            if (owned := before.partitions.get(each)) is not None and owned.active
        ]
        for owned in revoked:
            owned.active = False
        self.counts.revoked += len(revoked)
        if identity is not None:
            self.assignment = Assignment(identity, before.partitions)
        self.rebalancing = True
        return revoked

    def lose(self, partitions: Collection[TopicPartition]) -> None:
        """Mark *partitions* as lost: their offsets cannot be committed any more."""
        for each in partitions:
            if self.assignment is not None and (owned := self.assignment.partitions.get(each)) is not None:
                self.counts.lost += not owned.lost
                owned.lost = True

    def leave(self) -> None:
        """Remember that the client owns no partitions, because it has left its group."""
        self.assignment = Assignment()
        self.rebalancing = True


def _looked_up(old: OwnedPartition | None, found: int | None) -> LookedUp | None:
    if old is not None and old.looked_up is not None:
        return old.looked_up
    return None if found is None else LookedUp(found, ZERO_UUID)

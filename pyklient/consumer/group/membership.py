"""Who reads which partition: an assignment, and the port behind which groups are coordinated.

A :class:`Membership` decides (Kafka's group protocol, or nobody at all), an :class:`Owner` obeys: it reads
what it is given and lets go of it when told.
"""

import threading
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import Future
from typing import NamedTuple, Protocol

from pyklient.errors import KafkaError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["Assignment", "ConsumerRebalanceListener", "LookedUp", "Membership", "Owner"]


class LookedUp(NamedTuple):
    """The offset at which ``auto_offset_reset`` begins a partition, and the id of the topic at that time.

    The offset means nothing in a topic that was deleted and created again.
    """

    offset: int
    topic_id: bytes


class Assignment:
    """The partitions that are ours, until the whole of it is replaced.

    ``starts`` says where to begin: a committed offset, or None for ``auto_offset_reset`` to decide.
    ``held_since`` is the generation from which a partition has been ours without a gap. ``looked_up`` holds
    the offsets that ``auto_offset_reset`` led to, those of the assignment before for what is still ours; the
    finder of leaders adds to it. Work that comes late asks ``active`` and is dropped. ``lost`` says that the
    group has given the partitions away without waiting for us: nothing of them can be committed any more.

    Made by a Membership; affects everybody who holds one of its partitions.
    """

    __slots__ = ("active", "generation", "held_since", "looked_up", "lost", "member_id", "starts")

    def __init__(
        self,
        starts: Mapping[TopicPartition, OffsetAndMetadata | None],
        *,
        generation: int = -1,
        member_id: str = "",
        held_since: Mapping[TopicPartition, int] | None = None,
        looked_up: Mapping[TopicPartition, LookedUp] | None = None,
    ) -> None:
        self.starts = starts
        self.generation = generation
        self.member_id = member_id
        self.held_since = dict.fromkeys(starts, generation) if held_since is None else held_since
        self.looked_up = dict(looked_up or {})
        self.active = True
        self.lost = False

    def holds(self, partition: TopicPartition, generation: int) -> bool:
        """Whether *partition* is ours, and has been since *generation*."""
        since = self.held_since.get(partition)
        return since is not None and since <= generation

    def start(self, partition: TopicPartition) -> int | None:
        """Where to begin reading *partition*: at the committed offset, else where it was looked up to begin;
        None for a start that is still to be looked up."""
        committed, found = self.starts[partition], self.start_looked_up(partition)
        if committed is not None:
            return committed.offset
        return None if found is None else found.offset

    def start_looked_up(self, partition: TopicPartition) -> LookedUp | None:
        """Where *partition* was looked up to begin; None if there is a committed offset instead, or if
        nothing has been looked up."""
        return self.looked_up.get(partition) if self.starts[partition] is None else None

    def by_topic(self) -> dict[str, set[int]]:
        """The partitions, by topic."""
        found: dict[str, set[int]] = {}
        for topic, partition in self.starts:
            found.setdefault(topic, set()).add(partition)
        return found


class ConsumerRebalanceListener(Protocol):
    """What an application may want to know of a rebalance. Called on a thread of the connector's own.

    Heartbeats go on while a method runs, so it may take longer than ``session_timeout_ms``. The group waits
    for ``before_releasing_partitions`` within ``rebalance_timeout_ms``, and removes a member that takes
    longer. What a method raises is logged.
    """

    def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
        """Nothing more is handed out of *owned*; its offsets may still be committed. Empty the first time."""

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
        """About to read *assignment*: topic → partition → stream, named ``<consumer id>-<index>``."""


class Owner(Protocol):
    """Reads what it is given. Called by one Membership.

    ``release`` and ``take`` may wait, and run on a thread on which nothing else waits for them. The other
    methods return at once.
    """

    def release(self, patience: float) -> None:
        """Hand nothing more out, wait *patience* seconds at most for what is in hand, commit, and tell the
        listener.

        There is nothing to wait for or to commit where the assignment is ``lost``, or becomes so meanwhile.
        """

    def lose(self, assignment: Assignment) -> None:
        """Mark *assignment* as ``lost``; a release that is under way waits no longer."""

    def prepare(self, assignment: Assignment) -> None:
        """Count what is committed from *assignment* on. Called before commits can be made in its name."""

    def take(self, assignment: Assignment) -> None:
        """Read *assignment* from now on; the one before is inactive."""

    def extend(self, partitions: Sequence[TopicPartition]) -> None:
        """Read *partitions* too, from their start: they are new."""

    def stalled_for(self) -> float:
        """Seconds for which no message has been taken although one waits; 0.0 while the loops move."""

    def wanted(self) -> bool:
        """Whether every loop that :meth:`stalled_for` last found to stand still goes on."""

    def refuse(self, errors: Mapping[str, KafkaError]) -> None:
        """The brokers refuse these topics, and no others any more; loops that read them raise the error."""

    def commit_completed(self) -> None:
        """Commit what has been handed out and is not in hand any more. Does not wait for the answer."""

    def fail(self, error: Exception) -> None:
        """Reading cannot go on; every loop raises *error*."""


class Membership(Protocol):
    """Decides what an Owner reads, on a thread of its own."""

    thread: threading.Thread

    @property
    def assignment(self) -> Assignment | None:
        """The newest assignment, active or not; None before the first."""

    def runs_here(self) -> bool:
        """Whether the caller is on a thread of this membership, as a rebalance listener is."""

    def join(self, timeout: float) -> None:
        """Wait up to *timeout* seconds for the threads of this membership to end, but for the caller's."""

    def start(self, topics: Set[str], owner: Owner) -> None:
        """Begin, and return once the first assignment is taken. Raises what makes that impossible."""

    def commit(
        self,
        assignment: Assignment,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        timeout: float,
    ) -> dict[TopicPartition, int]:
        """Store *offsets* as the holder of *assignment*. → error codes of those not stored.

        Tries for *timeout* seconds, or on closing until no broker can be reached. Raises the last failure.
        """

    def send(
        self, assignment: Assignment, offsets: Mapping[TopicPartition, OffsetAndMetadata]
    ) -> "Future[dict[TopicPartition, int]] | None":
        """The same without waiting; None when it cannot be sent right now."""

    def trouble(self) -> KafkaError | None:
        """Why no broker can be reached at the moment; None while one may be."""

    def abandon(self, then: Callable[[], None]) -> bool:
        """Leave, as nobody holds the connector any more, and call *then* last, on this thread. Takes no lock
        and waits for nothing. → False where the thread has ended and may not call it."""

    def leave(self, timeout: float) -> None:
        """Release everything and end. Returns within about *timeout* seconds."""

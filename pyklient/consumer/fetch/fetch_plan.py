"""Plans the next request of a fetcher: which partitions, from which offsets on, and how many bytes.

A fetcher may have ten thousand partitions, and it takes time to look at all of them. So for most requests,
the plan looks only at partitions that may have changed since the last request: those with newly fetched
records, and those of which nothing may be fetched now. It looks at all partitions when it gets or loses a
partition, and otherwise after a number of requests, but at least once a second. A partition that is paused or
revoked may therefore be fetched for up to a second more. Its records are then set aside or dropped.
"""

import math
from collections.abc import Collection
from typing import Final

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.cut_batches import without_cut_batch
from pyklient.consumer.fetch.fetch_budget import FetchBudget
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetch_session import Wanted
from pyklient.consumer.fetch.fetcher_handover import FetchedPartition, within_queues
from pyklient.consumer.fetch.partial_messages import as_many_as_fit
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.topic_partition import TopicPartition

__all__ = ["FetchPlan"]

_PARTITIONS_AT_ONCE: Final = 20
"""For each request, a fetcher looks at all partitions that may have changed, and on average at no more than
this many others."""
_LOOK_AT_ALL_AFTER: Final = 1.0


class FetchPlan:
    """The partitions of one fetcher, and the contents of its next request. Only the fetcher's thread uses it.

    ``states`` has the fetched partitions. The fetcher changes it only with ``add`` and ``remove``. It calls
    ``note_change`` for each cursor whose position or number of fetched bytes changes.
    """

    def __init__(self, budget: FetchBudget, config: ConsumerConfig) -> None:
        self.states: dict[TopicPartition, FetchedPartition] = {}
        self.allowed: dict[Cursor, int] = {}
        """The number of bytes that may be fetched for each cursor. A cursor that may fetch nothing now is not
        in it."""
        self.left_out: list[Cursor] = []
        """The cursors that are not in ``allowed``, although they are not paused."""
        self.wanted: dict[TopicPartition, Wanted] = {}
        """The contents of the next request, by partition."""
        self.bounded = False
        """True if some of the partitions are read only up to a given offset."""
        self.has_ids = False
        """True if the topics of all partitions have ids."""
        self._names: dict[bytes, str] = {}
        """The names of topics by their ids."""
        self._budget = budget
        self._config = config
        self._cursors = budget.cursors
        """The budget's list of cursors at the time when all partitions were last looked at. If the budget has
        another list now, partitions were assigned or revoked since then."""
        self._due: dict[Cursor, None] = {}
        """The cursors to look at in the next update."""
        self._changed: dict[TopicPartition, None] | None = None
        """The partitions that were looked at since the last call of ``drain_changed``. None stands for all
        partitions."""
        self._updates = 0
        self._looked_at = -math.inf

    def add(self, state: FetchedPartition) -> None:
        """Fetch the partition of *state* from now on."""
        self.states[state.cursor.partition] = state
        self.look_at_all()

    def remove(self, partition: TopicPartition) -> FetchedPartition:
        """Do not fetch *partition* any more. Return its state."""
        self.look_at_all()
        return self.states.pop(partition)

    def note_change(self, cursor: Cursor) -> None:
        """Look at *cursor* in the next update, because records of its partition have arrived. In the next
        request, this partition comes after all others."""
        self._due[cursor] = None
        self.states[cursor.partition] = self.states.pop(cursor.partition)

    def look_at_all(self) -> None:
        """Look at all partitions in the next update."""
        self._looked_at = -math.inf

    def drop_inactive(self, now: float) -> list[FetchedPartition]:
        """Remove the partitions whose cursors are not active any more, and return them. Do nothing unless the
        next update looks at all partitions."""
        if not self._must_look_at_all(now):
            return []
        gone = [state for state in self.states.values() if not state.cursor.active]
        for state in gone:
            self.remove(state.cursor.partition)
        return gone

    def update(self, now: float, least: int) -> bool:
        """Decide the contents of the next request. Return False if nothing may be fetched now. *now* is in
        seconds of ``time.monotonic``. *least* is the smallest number of bytes that is worth asking for."""
        if self._must_look_at_all(now):
            self._budget.count_all()
            self._cursors = self._budget.cursors
            self._changed = None
            self._updates, self._looked_at = 0, now
            self.allowed, self.wanted, self._names = {}, {}, {}
            self._look_at(list(self.states.values()), now, least)
            self.bounded = any(state.cursor.end is not None for state in self.states.values())
            self.has_ids = all(state.cursor.topic_id != ZERO_UUID for state in self.states.values())
        else:
            self._updates += 1
            self._look_at([self.states[cursor.partition] for cursor in self._due], now, least)
        return bool(self.allowed)

    def reduce(self, most: int) -> None:
        """Plan only for as many partitions as fit into a response of *most* bytes, because brokers before
        Kafka 0.10.1 do not limit the response themselves."""
        chosen = as_many_as_fit(self.states, self.allowed, most)
        self.left_out += [cursor for cursor in self.allowed if cursor not in chosen]
        self.allowed = chosen
        self.wanted = {cursor.partition: _wanted(cursor, limit) for cursor, limit in chosen.items()}
        self._changed = None
        self.look_at_all()

    def asked(self, topic: str | bytes, partition: int) -> FetchedPartition | None:
        """Return the state of a partition if the last request asked for the partition. Otherwise return None.
        *topic* is the name or the id of the topic."""
        name = self._names.get(topic) if isinstance(topic, bytes) else topic
        state = None if name is None else self.states.get(TopicPartition(name, partition))
        if state is None or state.cursor not in self.allowed:
            return None
        return state if name is topic or state.cursor.topic_id == topic else None

    def drain_changed(self) -> Collection[TopicPartition] | None:
        """Return the partitions whose entries in ``wanted`` may have changed since the last call. Return None
        if all entries may have changed."""
        changed, self._changed = self._changed, {}
        return changed

    def _must_look_at_all(self, now: float) -> bool:
        return (
            now - self._looked_at >= _LOOK_AT_ALL_AFTER
            or (self._updates + 1) * _PARTITIONS_AT_ONCE >= len(self.states)
            or self._cursors is not self._budget.cursors
            or self._config.queued_max_message_chunks is not None
        )

    def _look_at(self, states: list[FetchedPartition], now: float, least: int) -> None:
        """Decide how much may be fetched of the partitions of *states*. The decisions about all other
        partitions stay. *now* is in seconds of ``time.monotonic``. *least* is the smallest number of bytes
        that is worth asking for."""
        may_fetch = states
        if self._config.queued_max_message_chunks is not None:
            may_fetch = within_queues(states)
        cursors = [state.cursor for state in may_fetch if not state.cursor.owned.paused]
        most = self._config.max_partition_fetch_bytes
        allowed = self._budget.allow(cursors, most, now, least=least)
        self.left_out, self._due = [], {}
        for state in states:
            cursor = state.cursor
            self.allowed.pop(cursor, None)
            self.wanted.pop(cursor.partition, None)
            if self._changed is not None:
                self._changed[cursor.partition] = None
            if (limit := allowed.get(cursor)) is not None:
                if cursor.cut_batch:
                    limit = without_cut_batch(limit, cursor.cut_batch, self._config.fetch_min_bytes)
                self.allowed[cursor] = limit
                self.wanted[cursor.partition] = _wanted(cursor, limit)
                self._names[cursor.topic_id] = cursor.partition.topic
                continue
            self._due[cursor] = None
            if not cursor.owned.paused:
                self.left_out.append(cursor)


def _wanted(cursor: Cursor, limit: int) -> Wanted:
    return Wanted(cursor.position or 0, limit, cursor.leader_epoch, cursor.topic_id)

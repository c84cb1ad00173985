"""Determines the end of each micro-batch: the end of the topics, or an earlier offset if an option limits the
micro-batch.

The first micro-batch of a new query that starts at ``latest`` is empty. Spark stores the start offsets in the
checkpoint together with this micro-batch. Otherwise Spark would ask for the start offsets again if the query
is restarted before its first micro-batch, and the query would skip the records that arrived before the
restart.
"""

import time
from collections.abc import Sequence
from typing import Final

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError
from pyklient.spark.source.data_loss import RecreatedTopics
from pyklient.spark.source.offset_lookup import OffsetLookup
from pyklient.spark.source.offset_ranges import Offsets, limit_ends
from pyklient.spark.source.source_options import SourceOptions
from pyklient.topic_partition import TopicPartition

__all__ = ["MicroBatchEnd"]

_DISCOVERY_INTERVAL: Final = 1.0
"""The number of seconds for which the list of subscribed partitions is used before it is looked up again."""


class MicroBatchEnd:
    """Determines where a streaming query begins, and where each of its micro-batches ends.

    There is one such object for each run of a query. It passes the topic ids that it finds to *recreated*.
    """

    def __init__(self, options: SourceOptions, lookup: OffsetLookup, recreated: RecreatedTopics) -> None:
        self._options = options
        self._lookup = lookup
        self._recreated = recreated
        self._initial: Offsets | None = None
        self._needs_empty_batch = False
        self._latest: Offsets | None = None
        self._available_now = False
        self._final: Offsets | None = None
        self._last_trigger = float("-inf")
        self._subscribed: Sequence[TopicPartition] = ()
        self._discovered_at = float("-inf")

    @property
    def latest(self) -> Offsets | None:
        """The offsets at the end of the topics, from the last lookup. None before the first lookup."""
        return self._latest

    def initial(self) -> Offsets:
        """Return the offsets at which a new query begins. Raises BrokerError if a topic does not exist."""
        if self._initial is None:
            partitions = self._lookup.partitions(self._options.subscription)
            self._initial = self._lookup.offsets(partitions, self._options.start)
            self._needs_empty_batch = self._options.start.moves
            self._note_topic_ids(self._initial)
        return self._initial

    def end_at_current_offsets(self) -> None:
        """Let the query end where the topics end at the time of the next lookup, as Trigger.AvailableNow
        requires."""
        self._available_now = True

    def after(self, begin: Offsets | None, *, limited: bool) -> Offsets:
        """Return the end of the micro-batch that starts at *begin*. For a micro-batch that must be empty,
        this is its start.

        If *limited* is true, the options ``minOffsetsPerTrigger`` and ``maxOffsetsPerTrigger`` apply. *begin*
        is None if Spark does not pass the start; then these options do not apply.
        """
        if self._needs_empty_batch and self._initial is not None and begin in (None, self._initial):
            self._needs_empty_batch = False
            return self._initial
        latest = self._look_up_latest(begin or {}) if self._final is None else self._final
        if self._available_now:
            self._final = latest
        if begin is None or not limited:
            return latest
        return self._within_limits(begin, latest)

    def _within_limits(self, begin: Offsets, latest: Offsets) -> Offsets:
        """Return *latest*, or smaller offsets if ``minOffsetsPerTrigger`` or ``maxOffsetsPerTrigger`` limits
        the micro-batch."""
        least, most = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        if least is None and most is None:
            return latest
        begin = {**self._lookup.earliest(latest.keys() - begin.keys()), **begin}
        if least is not None and not self._available_now and self._waits_for_more(least, begin, latest):
            return {each: offset for each, offset in begin.items() if each in latest}
        self._last_trigger = time.monotonic()
        return latest if most is None else limit_ends(most, begin, latest)

    def _waits_for_more(self, least: int, begin: Offsets, latest: Offsets) -> bool:
        waiting = sum(max(0, offset - begin[each]) for each, offset in latest.items())
        longest = self._options.max_trigger_delay_ms / 1000
        return waiting < least and time.monotonic() - self._last_trigger < longest

    def _look_up_latest(self, begin: Offsets) -> Offsets:
        """Return the end of each subscribed partition. If a broker reports an end before the offset in
        *begin*, this offset is returned, unless further lookups show that the log ends before it."""
        try:
            self._latest = self._lookup.latest(self._partitions(), begin)
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._discovered_at = float("-inf")  # a topic has been deleted since the last discovery
            self._latest = self._lookup.latest(self._partitions(), begin)
        self._note_topic_ids(begin)
        return self._latest

    def _note_topic_ids(self, begin: Offsets) -> None:
        self._recreated.note(self._lookup.topic_ids({each.topic for each in begin}), begin)

    def _partitions(self) -> Sequence[TopicPartition]:
        """Return the subscribed partitions, from a list that is looked up about once per second.

        A query that waits for data calls this method every few milliseconds, and need not discover new
        partitions that quickly.
        """
        if (now := time.monotonic()) >= self._discovered_at + _DISCOVERY_INTERVAL:
            self._subscribed = self._lookup.partitions(self._options.subscription, missing_ok=True)
            self._discovered_at = now
        return self._subscribed

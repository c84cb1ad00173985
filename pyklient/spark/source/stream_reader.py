"""Streaming reads: where each micro-batch begins and ends, in the JSON that Spark's own source writes.

One object lives as long as its query runs, in a process beside the driver; tasks read with another one. What
happens before the first micro-batch is in the checkpoint may happen twice: Spark asks for the initial offset
again after a restart. Where that may be another one by then (``latest``), the first micro-batch is an empty
one, which pins it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError
from pyklient.spark.option_values import json_text
from pyklient.spark.source.data_loss import DataLoss
from pyklient.spark.source.offset_lookup import Brokers
from pyklient.spark.source.offset_ranges import Offsets, share_out
from pyklient.spark.source.source_options import SourceOptions
from pyklient.spark.source.task_planning import RangePartition, plan, rows_of
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql.streaming.datasource import ReadLimit

__all__ = ["StreamReader"]

Json: TypeAlias = Mapping[str, Mapping[str, int]]

_UNWATCHED: Final = 1.0
"""Seconds for which a new partition may go unnoticed."""


class StreamReader(DataSourceStreamReader):
    """Plans beside the driver, reads on the executors; pickled before it has asked for anything."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._initial: Offsets | None = None
        self._unpinned = False
        self._known: Offsets | None = None
        self._target: Offsets | None = None
        self._ids: dict[str, bytes] = {}
        self._replaced: dict[TopicPartition, int] = {}
        self._available_now = False
        self._last_trigger = float("-inf")
        self._subscribed: Sequence[TopicPartition] = ()
        self._looked_at = float("-inf")

    @cached_property
    def _brokers(self) -> Brokers:
        return Brokers(self._options.config)

    def initialOffset(self) -> dict[str, Any]:
        """Where a new query begins. Raises BrokerError for a topic that does not exist."""
        if self._initial is None:
            partitions = self._brokers.partitions(self._options.subscription)
            self._initial = self._brokers.offsets(partitions, self._options.start)
            self._unpinned = self._options.start.moves
            self._note_topics(self._initial)
        return json_text(self._initial)

    def latestOffset(self, start: Json | None = None, limit: "ReadLimit | None" = None) -> dict[str, Any]:
        """Where the next micro-batch ends; *start* itself where there is to be none yet.

        PySpark before 4.2 says neither *start* nor *limit*: the micro-batch takes all there is.
        """
        begin = None if start is None else _offsets(start)
        if self._unpinned and self._initial is not None and begin in (None, self._initial):
            self._unpinned = False
            return json_text(self._initial)
        latest = self._latest(begin or {})
        if begin is None or limit is None:
            return json_text(latest)
        return json_text(self._limited(begin, latest, everything=_takes_everything(limit)))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The end of the topics as it was last seen, for the query's progress."""
        return None if self._known is None else json_text(self._known)

    def partitions(self, start: Json, end: Json) -> Sequence[RangePartition]:
        """The tasks of the micro-batch from *start* to *end*, the same ones however often Spark asks.

        A partition that is new in *end* is read from its earliest offset on. Raises DataLossError where
        records are gone, or warns: see ``failOnDataLoss``.
        """
        begin, until = _offsets(start), _offsets(end)
        there = self._brokers.existing({*begin, *until})
        self._note_topics(begin)
        loss = DataLoss(self._options.fail_on_data_loss)
        for each in sorted({*begin, *until} - there):
            if (at := begin.get(each, 0)) < until.get(each, at + 1):
                loss.report(f"{each} is gone, what followed offset {at} with it")
        until = {each: offset for each, offset in until.items() if each in there}
        replaced = {each for each in until if each in begin and begin[each] == self._replaced.get(each)}
        for each in sorted(replaced):
            loss.report(f"the topic of {each} was deleted and created again behind offset {begin[each]}")
            del begin[each]
        new = self._brokers.earliest(until.keys() - begin.keys())
        for each, first in sorted(new.items()):
            if first > 0:
                loss.report(
                    f"{each} is new to this query and begins at offset {first}: those before are gone"
                )
        return plan(self._brokers, self._options, {**begin, **new}, until)

    def read(self, partition: InputPartition | None) -> "Iterator[RecordBatch]":
        """The rows of one task."""
        return rows_of(partition, self._options)

    def commit(self, end: Json) -> None:
        """Nothing: where to go on is in the checkpoint."""

    def stop(self) -> None:
        """Close the connections. Spark may just end the process instead."""
        if "_brokers" in self.__dict__:
            self._brokers.close()

    def _note_topics(self, begin: Offsets) -> None:
        """Offsets in *begin* of a topic that was replaced since the last look mean nothing in the new one.
        What was there before this process began cannot be told."""
        ids = self._brokers.topic_ids({each.topic for each in begin})
        replaced = {topic for topic, found in ids.items() if self._ids.get(topic, found) != found}
        self._replaced |= {each: offset for each, offset in begin.items() if each.topic in replaced}
        self._ids |= ids

    def _latest(self, begin: Offsets) -> Offsets:
        """The end of every partition; with Trigger.AvailableNow as it was at first."""
        if self._target is not None:
            return self._target
        try:
            self._known = self._brokers.latest(self._partitions(), begin)
        except BrokerError as error:
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._looked_at = float("-inf")  # one that was there a moment ago is gone
            self._known = self._brokers.latest(self._partitions(), begin)
        self._note_topics(begin)
        if self._available_now:
            self._target = self._known
        return self._known

    def _partitions(self) -> Sequence[TopicPartition]:
        """All that are subscribed to. A query that waits for data asks every few milliseconds, and need not
        learn of new ones as fast."""
        if (now := time.monotonic()) >= self._looked_at + _UNWATCHED:
            self._subscribed = self._brokers.partitions(self._options.subscription, missing_ok=True)
            self._looked_at = now
        return self._subscribed

    def _limited(self, begin: Offsets, latest: Offsets, *, everything: bool) -> Offsets:
        """*latest* or less, as the options say."""
        least, most = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        if everything or (least is None and most is None):
            return latest
        begin = {**self._brokers.earliest(latest.keys() - begin.keys()), **begin}
        if least is not None and not self._available_now and self._is_to_wait(least, begin, latest):
            return {each: offset for each, offset in begin.items() if each in latest}
        self._last_trigger = time.monotonic()
        return latest if most is None else share_out(most, begin, latest)

    def _is_to_wait(self, least: int, begin: Offsets, latest: Offsets) -> bool:
        waiting = sum(max(0, offset - begin[each]) for each, offset in latest.items())
        patience = self._options.max_trigger_delay_ms / 1000
        return waiting < least and time.monotonic() - self._last_trigger < patience


def _offsets(given: Json) -> dict[TopicPartition, int]:
    """Offsets as a checkpoint has them."""
    return {
        TopicPartition(topic, int(number)): offset
        for topic, numbers in given.items()
        for number, offset in numbers.items()
    }


def _takes_everything(limit: "ReadLimit") -> bool:
    """Whether Spark asks for all there is in one micro-batch, as Trigger.Once does."""
    from pyspark.sql.streaming.datasource import ReadAllAvailable

    return isinstance(limit, ReadAllAvailable)

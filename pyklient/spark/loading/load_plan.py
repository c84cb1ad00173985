"""Determines the offsets that a load reads: from the end of the previous load to the end of the topics."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pyklient.spark.loading.data_set import Manifest
from pyklient.spark.source.data_loss import DataLoss, available
from pyklient.spark.source.offset_lookup import OffsetLookup
from pyklient.spark.source.offset_ranges import LogEnds, OffsetRange, limit_ends
from pyklient.spark.source.source_options import SourceOptions
from pyklient.topic_partition import TopicPartition

__all__ = ["LoadPlan", "plan_load"]


@dataclass(frozen=True)
class LoadPlan:
    """The offsets that one load reads, and the offsets at which the next load begins."""

    ranges: Mapping[TopicPartition, OffsetRange]
    """The range of offsets to read, for each partition that has new records."""
    end: Mapping[TopicPartition, int]
    """The offsets at which the next load begins, for every partition that this load or an earlier load has
    read."""
    topic_ids: Mapping[str, str]
    cluster_id: str | None


def plan_load(
    lookup: OffsetLookup,
    options: SourceOptions,
    partitions: Collection[TopicPartition],
    before: Manifest | None,
    max_records: int | None,
) -> LoadPlan:
    """Return the offsets that a load of *partitions* reads. *before* is the previous load, if there is one.

    A partition that the previous load knows begins where that load ended. A partition of a new topic begins
    at the start that *options* give, and a new partition of a known topic at its earliest offset.

    The load ends at the end of the topics, or after about *max_records*. If records were deleted before they
    were loaded, raises DataLossError, or logs a warning if the option ``failOnDataLoss`` is false.
    """
    loss = DataLoss(options.fail_on_data_loss)
    found_ids = lookup.topic_ids({each.topic for each in partitions})
    ids = {topic: each.hex() for topic, each in found_ids.items()}
    known = dict(before.positions) if before is not None else {}
    known_ids = dict(before.topic_ids) if before is not None else {}
    fresh = {each.topic for each in partitions} - {each.topic for each in known}
    for topic in sorted(_recreated(ids, known_ids)):
        loss.report(
            f"topic {topic} is not the one that was loaded before: it was deleted and created again, or the "
            "brokers belong to another cluster. Records of the old topic that were not loaded are lost; the "
            "new topic is read from its beginning"
        )
        known = {each: offset for each, offset in known.items() if each.topic != topic}
    start = _starts(lookup, options, partitions, known, fresh)
    latest = lookup.latest(partitions, start)
    end = {each: max(start[each], latest[each]) for each in partitions}
    logs = lookup.log_ends(end)
    ranges = {}
    for each in partitions:
        same = each in known and ids.get(each.topic) is not None
        wanted = OffsetRange(each, start[each], end[each])
        ranges[each], problem = _available(wanted, logs[each], latest[each], same_topic=same)
        if problem is not None:
            loss.report(problem)
    if max_records is not None:
        ends = limit_ends(
            max_records,
            {each: wanted.start for each, wanted in ranges.items()},
            {each: wanted.end for each, wanted in ranges.items()},
        )
        ranges = {each: wanted._replace(end=ends[each]) for each, wanted in ranges.items()}
    return LoadPlan(
        ranges={each: wanted for each, wanted in ranges.items() if wanted.size > 0},
        end=known | {each: wanted.end for each, wanted in ranges.items()},
        topic_ids=known_ids | ids,
        cluster_id=lookup.cluster_id,
    )


def _recreated(ids: Mapping[str, str], known: Mapping[str, str]) -> Collection[str]:
    return {topic for topic, each in ids.items() if known.get(topic, each) != each}


def _starts(
    lookup: OffsetLookup,
    options: SourceOptions,
    partitions: Collection[TopicPartition],
    known: Mapping[TopicPartition, int],
    fresh: Collection[str],
) -> dict[TopicPartition, int]:
    """Return the offset at which the load begins in each of *partitions*.

    A partition that was loaded before continues at its *known* offset. A partition of a *fresh* topic, which
    no load has read, begins at the start that *options* give. A partition that was added to a known topic
    begins at its earliest offset.
    """
    bound = options.start
    new = [each for each in partitions if each.topic in fresh]
    if isinstance(bound.at, Mapping):
        bound = replace(bound, at={each: at for each, at in bound.at.items() if each.topic in fresh})
    added = [each for each in partitions if each not in known and each.topic not in fresh]
    return {
        **lookup.earliest(added),
        **(lookup.offsets(new, bound) if new else {}),
        **{each: known[each] for each in partitions if each in known},
    }


def _available(
    wanted: OffsetRange, log: LogEnds, latest: int, *, same_topic: bool
) -> tuple[OffsetRange, str | None]:
    """Return the part of *wanted* that the partition still has, and a description of the missing part (None
    if nothing is missing).

    *log* has the ends of the log. If *wanted* begins after them, the log has lost records, or the topic was
    deleted and created again. If *same_topic* is true, the topic id shows that the topic was not created
    again, and the load reads nothing. Otherwise it reads the new topic from its first offset up to the offset
    *latest*.
    """
    kept, problem = available(wanted, log)
    if wanted.start <= log.next:
        return kept, problem
    if same_topic:
        problem = (
            f"{wanted.partition} was loaded up to offset {wanted.start}, but it ends at {log.next}: the end "
            "of its log was lost. The next load continues from the present end"
        )
        return OffsetRange(wanted.partition, log.next, log.next), problem
    return OffsetRange(wanted.partition, log.first, max(log.first, latest)), problem

"""What of the topics a load reads: everything since the load before, as far as it is there."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from pyklient.spark.loading.data_set import Manifest
from pyklient.spark.source.data_loss import DataLoss
from pyklient.spark.source.offset_lookup import Brokers
from pyklient.spark.source.offset_ranges import LogEnds, OffsetRange, share_out, within
from pyklient.spark.source.source_options import SourceOptions
from pyklient.topic_partition import TopicPartition

__all__ = ["LoadPlan", "plan_load"]


@dataclass(frozen=True)
class LoadPlan:
    """What one load reads."""

    ranges: Mapping[TopicPartition, OffsetRange]
    """Those that are not empty."""
    end: Mapping[TopicPartition, int]
    """Where the next load begins, in every partition that this or an earlier one has read."""
    topic_ids: Mapping[str, str]


def plan_load(
    brokers: Brokers,
    options: SourceOptions,
    partitions: Collection[TopicPartition],
    before: Manifest | None,
    max_records: int | None,
) -> LoadPlan:
    """The ranges of *partitions* from where *before* ends, or *options* begin, to the end of the log; of
    about *max_records* in all.

    Raises DataLossError where records between are gone, or warns: see ``failOnDataLoss``.
    """
    loss = DataLoss(options.fail_on_data_loss)
    found_ids = brokers.topic_ids({each.topic for each in partitions})
    ids = {topic: each.hex() for topic, each in found_ids.items()}
    known = dict(before.positions) if before is not None else {}
    known_ids = dict(before.topic_ids) if before is not None else {}
    fresh = {each.topic for each in partitions} - {each.topic for each in known}
    for topic in sorted(_created_again(ids, known_ids)):
        loss.report(
            f"topic {topic} is not the one that was loaded before: it was deleted and created again, or "
            "these brokers are of another cluster. What had not been loaded of the old one is gone; this one "
            "is read from its beginning"
        )
        known = {each: offset for each, offset in known.items() if each.topic != topic}
    start = _starts(brokers, options, partitions, known, fresh)
    latest = brokers.latest(partitions, start)
    end = {each: max(start[each], latest[each]) for each in partitions}
    logs = brokers.log_ends(end)
    ranges = {}
    for each in partitions:
        same = each in known and ids.get(each.topic) is not None
        wanted = OffsetRange(each, start[each], end[each])
        ranges[each], problem = _there(wanted, logs[each], latest[each], same_topic=same)
        if problem is not None:
            loss.report(problem)
    if max_records is not None:
        shares = share_out(
            max_records,
            {each: wanted.start for each, wanted in ranges.items()},
            {each: wanted.end for each, wanted in ranges.items()},
        )
        ranges = {each: wanted._replace(end=shares[each]) for each, wanted in ranges.items()}
    return LoadPlan(
        ranges={each: wanted for each, wanted in ranges.items() if wanted.size > 0},
        end=known | {each: wanted.end for each, wanted in ranges.items()},
        topic_ids=known_ids | ids,
    )


def _created_again(ids: Mapping[str, str], known: Mapping[str, str]) -> Collection[str]:
    return {topic for topic, each in ids.items() if known.get(topic, each) != each}


def _starts(
    brokers: Brokers,
    options: SourceOptions,
    partitions: Collection[TopicPartition],
    known: Mapping[TopicPartition, int],
    fresh: Collection[str],
) -> dict[TopicPartition, int]:
    """Where each of *partitions* is read from: *known*, else the beginning; in topics that no load has read,
    where *options* begin."""
    bound = options.start
    new = [each for each in partitions if each.topic in fresh]
    if isinstance(bound.at, Mapping):
        bound = replace(bound, at={each: at for each, at in bound.at.items() if each.topic in fresh})
    added = [each for each in partitions if each not in known and each.topic not in fresh]
    return {
        **brokers.earliest(added),
        **(brokers.offsets(new, bound) if new else {}),
        **{each: known[each] for each in partitions if each in known},
    }


def _there(
    wanted: OffsetRange, log: LogEnds, latest: int, *, same_topic: bool
) -> tuple[OffsetRange, str | None]:
    """What is there of *wanted*, and what is wrong. What has been loaded is not loaded again, as far as the
    topic is known to be the *same_topic*."""
    kept, problem = within(wanted, log)
    if wanted.start <= log.next:
        return kept, problem
    if same_topic:
        problem = (
            f"{wanted.partition} was loaded up to offset {wanted.start} and ends at {log.next}: it has "
            "lost its end. The next load goes on at its end"
        )
        return OffsetRange(wanted.partition, log.next, log.next), problem
    return OffsetRange(wanted.partition, log.first, max(log.first, latest)), problem

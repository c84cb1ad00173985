"""How far Spark's tasks are with a load."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyklient.spark.source.offset_ranges import OffsetRange
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["LoadProgress", "watched"]

_LOOK: Final = 0.25
_GROUP: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True)
class LoadProgress:
    """What a load has to do, and has done."""

    records: int
    """Offsets to read in all: gaps count."""
    partitions: int
    """Partitions to read."""
    tasks: int
    """Spark's tasks, of the stages that have begun."""
    done: int
    """Those that have ended."""


@contextmanager
def watched(
    spark: "SparkSession",
    group: str,
    ranges: Mapping[TopicPartition, OffsetRange],
    watch: Callable[[LoadProgress], None] | None,
) -> Iterator[None]:
    """Run Spark's jobs of the block under the name *group*, and tell *watch* how far they are. What the block
    leaves behind by an exception is cancelled."""
    context = spark.sparkContext
    before: dict[str, Any] = {name: context.getLocalProperty(name) for name in _GROUP}
    described = ", ".join(sorted({each.topic for each in ranges}))
    context.setJobGroup(group, f"load {described}")
    watching = None if watch is None else _Watching(context, group, ranges, watch)
    try:
        yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        if watching is not None:
            watching.end()
        for name, value in before.items():
            context.setLocalProperty(name, value)


class _Watching:
    """Asks Spark how far it is, again and again, until the end."""

    def __init__(
        self,
        context: "SparkContext",
        group: str,
        ranges: Mapping[TopicPartition, OffsetRange],
        watch: Callable[[LoadProgress], None],
    ) -> None:
        self._tracker = context.statusTracker()
        self._group, self._watch = group, watch
        self._records, self._partitions = sum(wanted.size for wanted in ranges.values()), len(ranges)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pyklient-load", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Ask once more, and no more."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        last = False
        while not last:
            last = self._ended.wait(_LOOK)
            self._watch(self._progress())

    def _progress(self) -> LoadProgress:
        tasks = done = 0
        for job in self._tracker.getJobIdsForGroup(self._group):
            info = self._tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                found = self._tracker.getStageInfo(stage)
                # Stages that are skipped, as their result is there, never begin.
                if found is not None and found.numActiveTasks + found.numCompletedTasks:
                    tasks += found.numTasks
                    done += found.numCompletedTasks
        return LoadProgress(self._records, self._partitions, tasks, done)

"""The progress of a load, from the status of its tasks in Spark."""

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

__all__ = ["LoadProgress", "reported_jobs"]

_INTERVAL: Final = 0.25
_JOB_PROPERTIES: Final = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


@dataclass(frozen=True)
class LoadProgress:
    """The size of a load, and how many of its tasks are done."""

    records: int
    """The number of offsets that the load reads in total. There may be fewer records, because not every
    offset has a record."""
    partitions: int
    """The number of partitions that the load reads."""
    tasks: int
    """The number of the load's tasks, in all stages that Spark has begun."""
    done: int
    """The number of the load's tasks that have ended."""


@contextmanager
def reported_jobs(
    spark: "SparkSession",
    group: str,
    ranges: Mapping[TopicPartition, OffsetRange],
    watch: Callable[[LoadProgress], None] | None,
) -> Iterator[None]:
    """Run the Spark jobs of the ``with`` block in the job group *group*, and call *watch* with their
    progress.

    If the block raises an exception, the jobs that are still running are cancelled.
    """
    context = spark.sparkContext
    before: dict[str, Any] = {name: context.getLocalProperty(name) for name in _JOB_PROPERTIES}
    described = ", ".join(sorted({each.topic for each in ranges}))
    context.setJobGroup(group, f"load {described}")
    reporter = None if watch is None else _ProgressReporter(context, group, ranges, watch)
    try:
        yield
    except BaseException:
        context.cancelJobGroup(group)
        raise
    finally:
        if reporter is not None:
            reporter.stop()
        for name, value in before.items():
            context.setLocalProperty(name, value)


class _ProgressReporter:
    """A thread that calls *watch* with the progress of a Spark job group at regular intervals, until ``stop``
    is called."""

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

    def stop(self) -> None:
        """Call *watch* with the progress one last time, and end the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        last = False
        while not last:
            last = self._ended.wait(_INTERVAL)
            self._watch(self._progress())

    def _progress(self) -> LoadProgress:
        tasks = done = 0
        for job in self._tracker.getJobIdsForGroup(self._group):
            info = self._tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                found = self._tracker.getStageInfo(stage)
                # Stages are skipped, and never begin, if their result exists already.
                if found is not None and found.numActiveTasks + found.numCompletedTasks:
                    tasks += found.numTasks
                    done += found.numCompletedTasks
        return LoadProgress(self._records, self._partitions, tasks, done)

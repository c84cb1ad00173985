"""The benchmark runs a `Mirror` of pyklient in two ways. In the row "pyklient, batches passed on", the mirror
keeps the partitions of the records, so it sends batches as it has fetched them. In the row "pyklient, records
decoded", it does not keep the partitions: it decodes each record, assigns it to a partition, and encodes and
compresses it again. Both mirrors commit the source offsets every five seconds, and have idempotent producers.

The benchmark asks a mirror every 0.1 seconds for its metrics. The time of a mirror is the time between the
first and the last answer while it copies. In the rows "pyklient, producer only" and "pyklient, consumer
only", the programs are those of the row "pyklient" in the other scenarios, with the same records.
"""

import time
from typing import Any

from pyklient import Mirror
from pyklient.mirror import MirrorMetrics
from tools.benchmarks.work import Job, Measured, measuring

_TIMEOUT = 120.0
_LOOK_INTERVAL = 0.1


def _mirror(job: Job, target: dict[str, Any], *, keep_partitions: bool) -> Measured:
    measured = Measured()
    group = f"pyklient-{time.time_ns()}"
    deadline = time.monotonic() + _TIMEOUT
    looks: list[tuple[float, int]] = []

    def look(metrics: MirrorMetrics) -> None:
        if metrics.target.delivered.records >= job.records:
            mirror.close()
        elif time.monotonic() > deadline:
            raise TimeoutError(f"{metrics.target.delivered.records} of {job.records} records are copied")
        elif metrics.target.delivered.records:
            looks.append((time.perf_counter(), metrics.target.delivered.records))

    with measuring(measured):
        mirror = Mirror(
            job.bootstrap_servers,
            {"bootstrap_servers": job.target_servers, **target},
            job.topic,
            group_id=group,
            keep_partitions=keep_partitions,
        )
        mirror.run(look, _LOOK_INTERVAL)
    metrics = mirror.metrics()
    assert metrics is not None
    measured.records = metrics.target.delivered.records
    if looks and looks[-1][1] > looks[0][1]:  # else the run is too short, and its whole time counts
        (began, first), (ended, last) = looks[0], looks[-1]
        measured.wall = (ended - began) * measured.records / (last - first)
    return measured


def passed_on(job: Job) -> Measured:
    return _mirror(job, {}, keep_partitions=True)


def decoded(job: Job) -> Measured:
    return _mirror(job, {"compression_type": job.compression}, keep_partitions=False)


TASKS = {"mirror-passed": passed_on, "mirror-decoded": decoded}

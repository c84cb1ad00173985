"""Kafka's own performance tools, as the Java client's entry. Their CPU time includes the JVM's start."""

import os
import re
import subprocess
import time
from pathlib import Path

from tests.benchmarks.work import Job, Measured

__all__ = ["run"]

_RESULT = re.compile(r"^\d{4}-\d\d-\d\d [\d:]+, (.+, ){8}[\d.]+$")
_CONFIRMED = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec", re.MULTILINE)


def run(job: Job, libs: Path) -> Measured:
    """Runs ProducerPerformance or ConsumerPerformance for *job*; raises RuntimeError when it falls short."""
    command = ["java", "-Xmx1g", "-cp", f"{libs}/*", *_tool(job)]
    before, start = os.times(), time.perf_counter()
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, check=False
    )
    after, lifetime = os.times(), time.perf_counter() - start
    measured = _measured(job, done.stdout, lifetime)
    measured.cpu = (after.children_user - before.children_user) + (
        after.children_system - before.children_system
    )
    return measured


def _tool(job: Job) -> list[str]:
    if job.task == "produce":
        return [
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", job.topic, "--num-records", str(job.records)),
            *("--record-size", str(job.value_size), "--throughput", "-1", "--producer-props"),
            f"bootstrap.servers={job.bootstrap_servers}",
            *(f"acks={job.acks}", "batch.size=262144", "linger.ms=5", "buffer.memory=134217728"),
            f"compression.type={job.compression}",
        ]
    return [
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", job.bootstrap_servers, "--topic", job.topic),
        *("--num-records", str(job.records), "--group", f"java-{time.time_ns()}", "--timeout", "60000"),
    ]


def _measured(job: Job, output: str, lifetime: float) -> Measured:
    if job.task == "produce":
        lines = _CONFIRMED.findall(output)
        if not lines or int(lines[-1][0]) != job.records:
            raise RuntimeError(
                f"ProducerPerformance did not confirm {job.records} records:\n{output[-2000:]}"
            )
        wall = job.records / float(lines[-1][1])
    else:
        rows = [line.split(", ") for line in output.splitlines() if _RESULT.match(line)]
        if not rows or int(rows[-1][4]) < job.records:
            raise RuntimeError(f"ConsumerPerformance did not read {job.records} records:\n{output[-2000:]}")
        wall = job.records / float(rows[-1][9])
    return Measured(
        records=job.records,
        payload_bytes=job.records * job.value_size,
        wall=wall,
        note=f"process lived {lifetime:.1f} s",
    )

"""The programs are Kafka's own kafka-producer-perf-test and ConsumerPerformance, with the JVM options of
Kafka's start script.

The settings are those that the documentation of Kafka and Confluent's "Optimize for throughput" recommend:
`batch.size` 200,000, `linger.ms` 10, a larger `buffer.memory` (128 MiB), fetches of 4 MiB for each partition
and `max.poll.records` 10,000. The consumer checks no CRCs.

The values come from a file, because the program would need CPU time to generate them. The values of the other
clients are made before the measurement begins. The first quarter of the records warms up the JVM and does
not count for a producer's records/s. CPU time and memory are those of the whole process, including the start
of the JVM. Latencies are whole milliseconds, and begin with the call of `send`, because the program measures
them itself.
"""

import os
import re
import string
import subprocess
import tempfile
import time
from random import Random

from tests.servers.java import SERVER_JVM, java_command
from tests.servers.maven import kafka_libs
from tools.benchmarks.work import DISTINCT, Job, Measured, values_for

VERSION = "4.3.1"

_TIMEOUT = 300
_CONSUMED = re.compile(r"^\d{4}-\d\d-\d\d [\d:]+, (.+, ){8}[\d.]+$")
_SENT = re.compile(r"^(\d+)( steady state)? records sent, ([\d.]+) records/sec", re.MULTILINE)
_LATENCY = re.compile(r" (\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th")
_ALPHABET = string.ascii_letters + string.digits


def run(job: Job) -> Measured:
    """Run the tool for *job*. Raises RuntimeError if it processes too few records."""
    with tempfile.NamedTemporaryFile("wb", prefix="pyklient-payloads-", suffix=".txt") as payloads:
        payloads.write(b"\n".join(_payloads(job)))
        payloads.flush()
        command = java_command(kafka_libs(VERSION), *_tool(job, payloads.name), heap="512m", jvm=SERVER_JVM)
        output, cpu, peak_mib = _run(command)
    measured = (_consumed if job.task == "consume" else _produced)(job, output)
    measured.cpu, measured.peak_mib = cpu, peak_mib
    return measured


def _payloads(job: Job) -> list[bytes]:
    """Write one value on each line; random values consist of letters and digits."""
    if job.task == "consume":
        return []
    if job.values == "flights":
        return values_for(job)
    source = Random(20_260_101)
    return ["".join(source.choices(_ALPHABET, k=job.value_size)).encode() for _ in range(DISTINCT)]


def _run(command: list[str]) -> tuple[str, float, float]:
    """Return the output of the process, its CPU time in seconds and its peak memory in MiB."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + _TIMEOUT
        while not (waited := os.wait4(process.pid, os.WNOHANG))[0]:
            if time.monotonic() > deadline:
                process.kill()
            time.sleep(0.01)
        process.returncode = os.waitstatus_to_exitcode(waited[1])
        output.seek(0)
        text = output.read().decode()
    usage = waited[2]
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}:\n{text[-2000:]}")
    return text, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def _tool(job: Job, payloads: str) -> list[str]:
    where = ["--bootstrap-server", job.bootstrap_servers, "--topic", job.topic]
    if job.task == "consume":
        return [
            "org.apache.kafka.tools.ConsumerPerformance",
            *where,
            *("--num-records", str(job.records), "--group", f"java-{time.time_ns()}"),
            *("--fetch-size", str(4 * 1024 * 1024), "--timeout", "60000"),
            *("--command-property", "max.poll.records=10000"),
        ]
    linger_ms = 0 if job.rate else 10
    return [
        "org.apache.kafka.tools.ProducerPerformance",
        *where,
        *("--num-records", str(job.records), "--warmup-records", str(job.records // 4)),
        *("--throughput", str(job.rate or -1), "--payload-file", payloads, "--command-property", "acks=all"),
        *("batch.size=200000", f"linger.ms={linger_ms}", "buffer.memory=134217728"),
        f"compression.type={job.compression}",
    ]


def _produced(job: Job, output: str) -> Measured:
    lines = {bool(steady): (int(count), float(rate)) for count, steady, rate in _SENT.findall(output)}
    if lines.get(False, (0, 0.0))[0] != job.records or True not in lines:
        raise RuntimeError(f"ProducerPerformance did not confirm {job.records} records:\n{output[-2000:]}")
    measured = Measured(records=job.records, wall=job.records / lines[True][1])
    if job.rate:
        steady = _LATENCY.findall(output)[-1]
        measured.percentiles_ms = dict(zip(("p50", "p99", "p99.9"), map(float, steady), strict=True))
    return measured


def _consumed(job: Job, output: str) -> Measured:
    rows = [line.split(", ") for line in output.splitlines() if _CONSUMED.match(line)]
    if not rows or int(rows[-1][4]) < job.records:
        raise RuntimeError(f"ConsumerPerformance did not read {job.records} records:\n{output[-2000:]}")
    records = int(rows[-1][4])
    return Measured(
        records=records,
        wall=records / float(rows[-1][9]),
        payload_bytes=int(float(rows[-1][2]) * 1024 * 1024),
    )


TASKS = {"produce": run, "consume": run, "latency": run}

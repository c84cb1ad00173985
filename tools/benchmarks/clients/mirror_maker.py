"""This is the classic MirrorMaker, which Kafka 4 does not have any more. It runs with one stream. Its
producer has `batch.size` 500,000 and `linger.ms` 5, and is not idempotent, which is MirrorMaker's default.
CPU time and memory are those of the whole process, including the start of the JVM. The time is measured in
the same way as for pyklient's mirrors.
"""

import os
import resource
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from pyklient import Admin
from tests.servers.java import SERVER_JVM, java_command
from tests.servers.maven import kafka_libs
from tools.benchmarks.work import Job, Measured

VERSION = "2.8.2"

_TIMEOUT = 120.0
_LOOK_INTERVAL = 0.02
_ENDING_TIMEOUT = 30.0


def mirror(job: Job) -> Measured:
    """Run MirrorMaker until the topic has the records of *job* in the target cluster."""
    with tempfile.TemporaryDirectory(prefix="pyklient-bench-") as directory:
        command = _command(job, Path(directory))
        started = time.perf_counter()
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            looks = _looks(job)
            if len(looks) == 1:  # few records, which were all copied between two looks
                looks.insert(0, (started, 0))
            program.send_signal(signal.SIGTERM)
            usage = _usage(program)
        finally:
            program.kill()
            program.wait()
    (began, first), (ended, last) = looks[0], looks[-1]
    return Measured(
        records=last,
        wall=(ended - began) * last / max(last - first, 1),
        cpu=usage.ru_utime + usage.ru_stime,
        peak_mib=usage.ru_maxrss / 1024,
    )


def _looks(job: Job) -> list[tuple[float, int]]:
    """Return the times at which the target cluster had records, with their numbers, up to those of *job*."""
    deadline = time.monotonic() + _TIMEOUT
    looks: list[tuple[float, int]] = []
    with Admin(job.target_servers) as admin:
        partitions = admin.partitions([job.topic])
        while not looks or looks[-1][1] < job.records:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{looks[-1][1] if looks else 0} of {job.records} records are copied")
            time.sleep(_LOOK_INTERVAL)
            if stored := sum(admin.end_offsets(partitions).values()):
                looks.append((time.perf_counter(), stored))
    return looks


def _usage(program: "subprocess.Popen[bytes]") -> resource.struct_rusage:
    """Wait until *program* has ended, and return what it has used."""
    deadline = time.monotonic() + _ENDING_TIMEOUT
    while not (waited := os.wait4(program.pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            program.kill()
        time.sleep(0.01)
    program.returncode = os.waitstatus_to_exitcode(waited[1])
    usage: resource.struct_rusage = waited[2]
    return usage


def _command(job: Job, directory: Path) -> list[str]:
    reading, writing = directory / "consumer.properties", directory / "producer.properties"
    reading.write_text(
        f"bootstrap.servers={job.bootstrap_servers}\ngroup.id=java-{time.time_ns()}\nauto.offset.reset=earliest\n"
    )
    writing.write_text(
        f"bootstrap.servers={job.target_servers}\ncompression.type={job.compression}\nacks=all\n"
        "batch.size=500000\nlinger.ms=5\n"
    )
    arguments = [
        "--consumer.config",
        str(reading),
        "--producer.config",
        str(writing),
        "--whitelist",
        job.topic,
    ]
    return java_command(
        kafka_libs(VERSION), "kafka.tools.MirrorMaker", *arguments, heap="512m", jvm=SERVER_JVM
    )


TASKS = {"mirror": mirror}

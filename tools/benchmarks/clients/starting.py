"""Starts a small program several times, and measures each time from its start until it has done its work."""

import subprocess
import sys
import time

from tools.benchmarks.work import Job, Measured
from tools.repository import ROOT

__all__ = ["started"]

_TIMEOUT = 60


def started(program: str, job: Job) -> Measured:
    """Run the Python code *program* once for each record of *job*.

    Its arguments are the broker's address, the topic, and a name that it alone has. It prints its CPU time
    when it has sent or read its record. Raises RuntimeError if it fails.
    """
    measured = Measured()
    for number in range(job.records):
        name = f"start-{time.time_ns()}-{number}"
        begun = time.perf_counter()
        with subprocess.Popen(
            [sys.executable, "-c", program, job.bootstrap_servers, job.topic, name],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            said = process.stdout.readline()
            measured.wall += time.perf_counter() - begun
            try:
                _, errors = process.communicate(timeout=_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        if process.returncode:
            raise RuntimeError(f"the program ended with {process.returncode}:\n{errors[-2000:]}")
        measured.cpu += float(said)
        measured.records += 1
    measured.payload_bytes = measured.records * job.value_size
    return measured

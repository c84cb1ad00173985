"""``make memory-spark``: one task reads a partition of 5 GB, in a Python worker that stays below 512 MiB.

python -m tools.spark.memory --gigabytes 5 --bound 512
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tests.servers.topics import create_topic
from tools.spark.memory.one_task import Reading, fill, read_in_one_task
from tools.spark.session import new_session

_TOPIC = "large"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.spark.memory", description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=5, help="bytes of values, in 10^9 (default 5)")
    parser.add_argument("--bound", type=int, default=512, help="of the worker's memory, in MiB (default 512)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pyklient-memory-", ignore_cleanup_errors=True) as directory:
        read = _run(Path(directory), round(options.gigabytes * 1e9))
    peak = read.peak / 2**20
    print(
        f"one task read {read.size:,} bytes in {read.rows:,} rows; "
        f"the peak memory of its worker was {peak:.0f} MiB"
    )
    if peak > options.bound:
        sys.exit(f"more than {options.bound} MiB")


def _run(directory: Path, size: int) -> Reading:
    began = time.monotonic()
    reaper = Reaper()
    cluster = KraftCluster(directory / "kafka", reaper)
    cluster.start()
    try:
        create_topic(cluster.bootstrap_servers, _TOPIC)
        told = 0.0
        for sent in fill(cluster.bootstrap_servers, _TOPIC, size):
            if sent >= told:
                print(f"{time.monotonic() - began:6.1f} s  {sent / 1e9:.1f} GB sent", flush=True)
                told = sent + size / 10
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        spark = new_session("local[2]", directory)
        read = read_in_one_task(spark, cluster.bootstrap_servers, _TOPIC)
        print(f"{time.monotonic() - began:6.1f} s  {read.size / 1e9:.1f} GB read", flush=True)
        spark.stop()
    finally:
        cluster.stop()
        reaper.close()
    return read


if __name__ == "__main__":
    main()

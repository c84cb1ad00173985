"""Runs one job in its own process: `python -m tools.benchmarks.clients JOB` prints what it measured."""

import importlib
import sys

from tools.benchmarks.work import Job


def main() -> None:
    job = Job.from_json(sys.argv[1])
    module = importlib.import_module(f"tools.benchmarks.clients.{job.client}")
    print(module.TASKS[job.task](job).to_json())


if __name__ == "__main__":
    main()

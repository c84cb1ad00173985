"""One job in a process of its own: `python -m tests.benchmarks.worker JOB` prints what it measured."""

import importlib
import sys

from tests.benchmarks.work import Job

MODULES = {
    "pyklient": "own",
    "pyklient-python": "own",
    "confluent-kafka": "confluent",
    "kafka-python": "kafka_python",
    "aiokafka": "aio_kafka",
}


def main() -> None:
    job = Job.from_json(sys.argv[1])
    module = importlib.import_module(f"tests.benchmarks.clients.{MODULES[job.client]}")
    print(module.TASKS[job.task](job).to_json())


if __name__ == "__main__":
    main()

"""`make bench`: starts real Kafka, runs every client in interleaved rounds, prints and writes the ratios."""

import argparse
import importlib
import importlib.metadata
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown

from pyklient import Admin
from pyklient.protocol.records import kernel
from tests.benchmarks import java
from tests.benchmarks.report import Results, markdown, table
from tests.benchmarks.scenarios import SCENARIOS, Scenario
from tests.benchmarks.work import Job, Measured
from tests.benchmarks.worker import MODULES
from tests.servers.kafka import KraftCluster
from tests.servers.maven import kafka_libs
from tests.servers.reaper import Reaper

KAFKA = "4.3.1"
PARTITIONS = 4
PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def run_client(job: Job, libs: Path) -> Measured:
    """One job in a process of its own. Raises RuntimeError when it fails or loses a record."""
    if job.client == "java":
        return java.run(job, libs)
    environment = dict(os.environ)
    if job.client == "pyklient-python":
        environment["PYKLIENT_KERNEL"] = "python"
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks.worker", job.to_json()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{job.client} failed at {job.task}:\n{done.stderr[-3000:]}")
    measured = Measured.from_json(done.stdout.strip().splitlines()[-1])
    if measured.records < job.records:
        raise RuntimeError(f"{job.client} at {job.task}: {measured.records} of {job.records} records")
    return measured


class Bench:
    """One broker, and the topics made on it."""

    def __init__(self, broker: KraftCluster, rounds: int, console: Console) -> None:
        self.servers = broker.bootstrap_servers
        self.admin = Admin(self.servers)
        self.rounds = rounds
        self.console = console
        self.libs = kafka_libs(KAFKA)

    def scenario(self, scenario: Scenario) -> Results:
        """All rounds of one scenario; the clients take turns within a round."""
        results = Results(scenario, {client: [] for client in scenario.clients})
        source = self._loaded(scenario) if scenario.task == "consume" else ""
        for number in range(self.rounds):
            for client in scenario.clients:
                topic = source or self._topic(f"{client}-{number}-{abs(hash(scenario))}")
                measured = run_client(self._job(scenario, client, topic), self.libs)
                results.runs[client].append(measured)
                self.console.print(
                    f"  round {number + 1} {client:16} {measured.records_per_second:12,.0f}/s "
                    f"{measured.cpu_per_record_us:8.3f} µs/record"
                )
                if not source:
                    self.admin.delete_topic(topic)
        if source:
            self.admin.delete_topic(source)
        return results

    def _topic(self, name: str) -> str:
        self.admin.create_topic(name, partitions=PARTITIONS)
        return name

    def _loaded(self, scenario: Scenario) -> str:
        """A topic with as many records as the hungriest client reads."""
        topic = self._topic(f"source-{abs(hash(scenario))}")
        records = max(scenario.records(client) for client in scenario.clients)
        job = self._job(scenario, "confluent-kafka", topic, task="produce", records=records)
        run_client(job, self.libs)
        return topic

    def _job(self, scenario: Scenario, client: str, topic: str, task: str = "", records: int = 0) -> Job:
        return Job(
            client=client,
            task=task or scenario.task,
            bootstrap_servers=self.servers,
            topic=topic,
            records=records or scenario.records(client),
            value_size=scenario.value_size,
            values=scenario.values,
            compression=scenario.compression,
            rate=scenario.rate,
        )


def setups() -> list[tuple[str, str]]:
    """How each client is set up, from the words at the head of its module."""
    found = []
    for client, name in MODULES.items():
        module = importlib.import_module(f"tests.benchmarks.clients.{name}")
        words = " ".join((module.__doc__ or "").split())
        version = importlib.metadata.version("pyklient" if client.startswith("pyklient") else client)
        found.append((f"{client} {version}", words))
    return [*found, (f"java {KAFKA}", java.__doc__ or "")]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--only", default="", help="only scenarios whose title holds this text")
    options = parser.parse_args()
    console = Console()
    chosen = [scenario for scenario in SCENARIOS if options.only in scenario.title]
    facts = [
        f"Kafka {KAFKA} (KRaft), one broker, {PARTITIONS} partitions, client and broker on the same "
        f"{os.cpu_count()} cores, acks=all, linger 5 ms (latency: 0)",
        f"Python {platform.python_version()}, pyklient's kernel: {kernel.name}",
        f"{options.rounds} rounds",
    ]
    finished = []
    with tempfile.TemporaryDirectory(prefix="pyklient-bench-") as directory:
        broker = KraftCluster(Path(directory), Reaper())
        broker.start()
        try:
            bench = Bench(broker, options.rounds, console)
            for scenario in chosen:
                console.rule(scenario.title)
                finished.append(bench.scenario(scenario))
                console.print(Markdown(table(finished[-1])))
        finally:
            broker.stop()
    if not options.only:
        PAGE.write_text(markdown(finished, facts, setups()))
        console.print(f"written: {PAGE.relative_to(Path.cwd())}")


if __name__ == "__main__":
    main()

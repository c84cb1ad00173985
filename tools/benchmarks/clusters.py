"""Starts and stops the brokers of a run of the benchmarks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.java import SERVER_JVM
from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tools.benchmarks.bench import Bench
from tools.benchmarks.scenarios import Scenario

__all__ = ["Clusters"]

_BROKER = {
    "num.io.threads": 8,  # these two have Kafka's defaults, unlike the brokers of tests
    "num.network.threads": 3,
    "message.max.bytes": 2 * 1024 * 1024,  # a batch of 10,000 records of 100 B has more than 1 MiB
    "log.segment.delete.delay.ms": 1_000,  # deleted before they are written to the disk
}


class Clusters:
    """One broker for most scenarios, with a second one if *mirrors*, which are started at once and run until
    ``close``. A scenario with several brokers gets a cluster of its own, which would only disturb the others.

    *scale* is that of a Bench.
    """

    def __init__(self, directory: Path, scale: float, *, mirrors: bool) -> None:
        self._directory = directory
        self._scale = scale
        self._reaper = Reaper()
        self._running: list[KraftCluster] = []
        try:
            source = self._start(1)
            target = self._start(1) if mirrors else source
            self._bench = Bench(source.bootstrap_servers, scale, target.bootstrap_servers)
        except BaseException:
            self.close()
            raise

    @contextmanager
    def bench_for(self, scenario: Scenario) -> Iterator[Bench]:
        """Yield the Bench that runs *scenario*."""
        if scenario.brokers == 1 or scenario.is_scripted:
            yield self._bench
            return
        cluster = self._start(scenario.brokers)
        bench = Bench(cluster.bootstrap_servers, self._scale)
        yield bench
        bench.close()
        cluster.stop()
        self._running.remove(cluster)

    def _start(self, brokers: int) -> KraftCluster:
        folder = self._directory / str(len([*self._directory.iterdir()]))
        folder.mkdir()
        cluster = KraftCluster(
            folder, self._reaper, brokers=brokers, settings=_BROKER, heap="1g", jvm=SERVER_JVM
        )
        self._running.append(cluster)
        cluster.start()
        return cluster

    def close(self) -> None:
        """Stop all brokers."""
        for cluster in self._running:
            cluster.stop()
        self._reaper.close()

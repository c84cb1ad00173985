"""Spark's own cluster manager: a master and two workers on this machine, each a process of its own."""

import os
import sys
from pathlib import Path

from tests.servers.java import QUICK_JVM, spark_jvm
from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerProcess
from tests.servers.programs import program
from tests.servers.reaper import Reaper
from tests.servers.spark_home import spark_home

__all__ = ["StandaloneCluster"]

_DEPLOY = "org.apache.spark.deploy"


class StandaloneCluster:
    """A master and *workers* workers with a core each, under two host names: Spark runs no task twice on one
    host."""

    def __init__(self, directory: Path, reaper: Reaper, workers: int = 2) -> None:
        program("java")
        port = free_port()
        installation = spark_home()  # where the archive of classes is valid; workers write elsewhere
        self.master = f"spark://{HOST}:{port}"
        start = [str(installation / "bin" / "spark-class")]
        common = ["--webui-port", "0", "--host"]
        self._environment = {
            "PYTHONPATH": "",
            "SPARK_DAEMON_JAVA_OPTS": spark_jvm(),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_HOME": str(installation),
            "SPARK_LAUNCHER_OPTS": " ".join(QUICK_JVM),
            "SPARK_LOCAL_IP": HOST,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        master = [*start, f"{_DEPLOY}.master.Master", *common, HOST, "--port", str(port)]
        self._processes = [ServerProcess("spark-master", master, directory, reaper)]
        for number in range(workers):
            home = directory / f"worker-{number}"
            home.mkdir(parents=True)
            host = (HOST, "localhost")[number % 2]
            worker = [*start, f"{_DEPLOY}.worker.Worker", *common, host, "--cores", "1", "--memory", "512m"]
            worker += ["--work-dir", str(home / "work"), self.master]
            self._processes.append(ServerProcess(f"spark-worker-{number}", worker, home, reaper))

    def start(self) -> None:
        """Start all processes. Return when the master knows the workers."""
        master, *workers = self._processes
        master.launch(self._environment)
        self._wait(master, "I have been elected leader")
        for worker in workers:
            worker.launch(self._environment)
        for worker in workers:
            self._wait(worker, "Successfully registered with master")

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.stop()

    def tail(self) -> str:
        """Return the end of each log."""
        return "\n".join(f"--- {each.name}\n{each.tail()}" for each in self._processes)

    def _wait(self, process: ServerProcess, line: str) -> None:
        process.wait_ready(lambda: line in process.log.read_text(errors="replace"))

"""Kafka in a container, with the interface of the other servers."""

from pathlib import Path

from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

from tests.containers.image import OFFICIAL, kafka_image
from tests.servers.kafka import kraft_properties, new_cluster_id, properties_text
from tests.servers.ports import free_port
from tests.servers.process import wait_until
from tests.servers.topics import serves

__all__ = ["ContainerKafka"]

_PORT = 9092
_WAIT_FOR_START = "while [ ! -f /tmp/start.sh ]; do sleep 0.1; done; . /tmp/start.sh"
_START = """\
set -e
export CLASSPATH='/opt/kafka/libs/*'
java kafka.tools.StorageTool format --ignore-formatted -t {cluster} -c /tmp/server.properties
exec java -Xmx384m -XX:+UseSerialGC kafka.Kafka /tmp/server.properties
"""


class ContainerKafka:
    """A Kafka 4.3.1 broker in a container. It keeps its port and its data when it is killed."""

    name = "container"

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        image = kafka_image()
        if image != OFFICIAL:  # no registry in reach: the reaper's image cannot be had either
            testcontainers_config.ryuk_disabled = True
        self._container = (
            DockerContainer(image)
            .with_bind_ports(_PORT, free_port())
            .with_kwargs(entrypoint=["/bin/sh", "-c", _WAIT_FOR_START])
        )
        self._address = ""
        self._runs = False
        self._log = ""

    @property
    def bootstrap_servers(self) -> str:
        return self._address

    def start(self) -> None:
        """Start the container, tell the broker its address outside the container, and wait until the broker
        serves."""
        self._container.start()
        self._runs = True
        host = self._container.get_container_host_ip()
        self._address = f"{host}:{self._container.get_exposed_port(_PORT)}"
        properties = kraft_properties(
            1,
            {1: "localhost:9093"},
            {"PLAINTEXT": f"0.0.0.0:{_PORT}", "CONTROLLER": "localhost:9093"},
            {"PLAINTEXT": self._address},
            "/tmp/data",
        )
        self._container.copy_into_container(properties_text(properties).encode(), "/tmp/server.properties")
        self._container.copy_into_container(_START.format(cluster=new_cluster_id()).encode(), "/tmp/start.sh")
        self._wait_ready()

    def kill(self) -> None:
        """Send SIGKILL to the container's process."""
        container = self._container.get_wrapped_container()
        container.kill()
        container.wait(timeout=20)

    def restart(self) -> None:
        """Start the container again after a kill. Return when the broker serves."""
        self._container.get_wrapped_container().start()
        self._wait_ready()

    def stop(self) -> None:
        """Remove the container and its data, except for the end of its log. May be called again."""
        if self._runs:
            self.logs()
            self._runs = False
            self._container.stop()

    def logs(self) -> dict[str, str]:
        if self._runs:
            output, errors = self._container.get_logs()
            self._log = (output + errors).decode(errors="replace")[-4000:]
        return {self.name: self._log}

    def _wait_ready(self) -> None:
        wait_until(lambda: serves(self._address), 60, f"Kafka in a container at {self._address}")

"""Real Kafka brokers with ZooKeeper, of any version from 0.8.2 to 3.9, as child processes."""

import json
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException

from tests.servers.java import java_command
from tests.servers.kafka import LOGGING, QUICK, properties_text
from tests.servers.maven import kafka_libs
from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerProcess, wait_until
from tests.servers.reaper import Reaper
from tests.servers.topics import forget_admins, leaders, serves
from tests.servers.zookeeper import ZooKeeper, connected

__all__ = ["ZooKeeperKafka"]

_FIRST_LISTENERS = (0, 9)
_FIRST_WITHOUT_LOG4J = (1, 0)
_LOG4J = """\
log4j.rootLogger=WARN, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class ZooKeeperKafka:
    """One broker of Kafka *version* (0.8.2.2 to 3.9.1), with its own ZooKeeper unless *zookeeper* is given.

    Several brokers share a ZooKeeper: with the same *chroot* ("/path") and different *broker_id* they form a
    cluster. Then the caller starts and stops ZooKeeper. ``settings`` are added to the broker's properties.
    """

    def __init__(
        self,
        directory: Path,
        reaper: Reaper,
        version: str = "2.8.2",
        *,
        zookeeper: ZooKeeper | None = None,
        chroot: str = "",
        broker_id: int = 0,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.name = f"kafka-{version}"
        self.version = tuple(int(part) for part in version.split("."))
        self.libs = kafka_libs(version)
        self.chroot = chroot
        self.broker_id = broker_id
        self._owns_zookeeper = zookeeper is None
        self.zookeeper = zookeeper or ZooKeeper(directory / "zookeeper", reaper)
        home = directory / f"broker-{broker_id}"
        home.mkdir(parents=True)
        self._port = free_port()
        properties = home / "server.properties"
        properties.write_text(properties_text({**self._properties(home), **(settings or {})}))
        logging: tuple[str, ...] = LOGGING
        if self.version < _FIRST_WITHOUT_LOG4J:
            log4j = home / "log4j.properties"
            log4j.write_text(_LOG4J)
            logging = (f"-Dlog4j.configuration=file:{log4j}",)
        command = java_command(self.libs, "kafka.Kafka", str(properties), options=logging)
        self.process = ServerProcess(f"{self.name}-{broker_id}", command, home, reaper)

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self._port}"

    @property
    def zookeeper_connect(self) -> str:
        """Return the address of ZooKeeper with the chroot, as Kafka's clients and tools expect it."""
        return f"{self.zookeeper.hosts}{self.chroot}"

    def start(self) -> None:
        if self._owns_zookeeper:
            self.zookeeper.start()
        self.restart()

    def kill(self) -> None:
        """Send SIGKILL to the broker; ZooKeeper goes on."""
        self.process.kill()

    def restart(self) -> None:
        """Start the broker when ZooKeeper has ended its previous session. Return when it serves."""
        self.zookeeper.wait_gone(f"{self.chroot}/brokers/ids/{self.broker_id}")
        self.process.launch()
        self.process.wait_ready(self._is_ready)
        forget_admins()

    def stop(self) -> None:
        self.process.kill()
        if self._owns_zookeeper:
            self.zookeeper.stop()

    def logs(self) -> dict[str, str]:
        return {self.process.name: self.process.tail(), "zookeeper": self.zookeeper.process.tail()}

    def create_topic(self, name: str, partitions: int = 1, **config: object) -> str:
        """Create a topic on this broker, ``config`` with underscores for dots, and wait until it is led.

        The nodes in ZooKeeper are those that Kafka's own tools write. Brokers before 0.10.1 have no request
        for it.
        """
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        nodes: dict[str, object] = {
            f"/config/topics/{name}": {"version": 1, "config": settings},
            f"/brokers/topics/{name}": {
                "version": 1,
                "partitions": {str(number): [self.broker_id] for number in range(partitions)},
            },
        }
        with connected(self.zookeeper_connect) as client:
            for path, content in nodes.items():
                client.create(path, json.dumps(content).encode(), makepath=True)
        wait_until(lambda: self._leads(name, partitions), 60, f"leaders of {name}")
        return name

    def _is_ready(self) -> bool:
        if self.version >= _FIRST_LISTENERS:
            return serves(self.bootstrap_servers, version=self.version)
        # A broker of 0.8 registers when it serves. Its metadata names no broker until there is a topic.
        return self.zookeeper.has(f"{self.chroot}/brokers/ids/{self.broker_id}")

    def _leads(self, topic: str, partitions: int) -> bool:
        try:
            found = leaders(self.bootstrap_servers, topic, self.version)
        except KafkaException:  # librdkafka cannot read metadata without brokers: see _is_ready
            return False
        return len(found) == partitions and set(found.values()) == {self.broker_id}

    def _properties(self, home: Path) -> dict[str, object]:
        if self.version < _FIRST_LISTENERS:
            address: dict[str, object] = {
                "host.name": HOST,
                "port": self._port,
                "advertised.host.name": HOST,
                "advertised.port": self._port,
            }
        else:
            address = {"listeners": f"PLAINTEXT://{HOST}:{self._port}"}
        return {
            "broker.id": self.broker_id,
            **address,
            "log.dirs": home / "data",
            "zookeeper.connect": self.zookeeper_connect,
            "zookeeper.session.timeout.ms": 2000,
            "delete.topic.enable": "true",
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            **QUICK,
        }

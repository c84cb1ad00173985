"""The brokers of each release, one after the other."""

import pytest

from tests.brokers.release import Release
from tests.servers.kafka import KraftCluster
from tests.servers.pool import ServerPool
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_ALWAYS = ("0.8.2.2", "0.10.2.2")
"""The releases of which `make test` starts a broker: record formats 0 and 1, without and with ApiVersions."""

_LONG = ("0.9.0.1", "0.11.0.3", "1.1.1", "2.8.2", "3.9.1", "4.3.1")


def _parameter(version: str) -> object:
    marks = [pytest.mark.uses(f"kafka-{version}"), *([pytest.mark.long] if version in _LONG else [])]
    return pytest.param(version, marks=marks)


@pytest.fixture(scope="session", params=[_parameter(version) for version in (*_ALWAYS, *_LONG)])
def release(request: pytest.FixtureRequest, servers: ServerPool) -> Release:
    """A broker of each release in turn."""
    server = servers.get(f"kafka-{request.param}")
    assert isinstance(server, ZooKeeperKafka | KraftCluster)
    return Release(request.param, server)

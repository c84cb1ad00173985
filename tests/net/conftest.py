"""Fixtures of the network's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.net.connection.connection import Connection
from pyklient.protocol.messages import HeartbeatRequest, HeartbeatResponse
from tests.net.connections import opened
from tests.net.scripted import ScriptedBroker
from tests.servers.tls import Certificates


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Valid and invalid certificates, made once."""
    directory: Path = tmp_path_factory.mktemp("tls") / "certificates"
    return Certificates(directory)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """A broker that answers a heartbeat with its generation as the throttle time, so that responses can be
    distinguished."""
    with ScriptedBroker() as broker:
        broker.on(HeartbeatRequest, lambda request: HeartbeatResponse(throttle_time_ms=request.generation_id))
        yield broker


@pytest.fixture
def connection(broker: ScriptedBroker) -> Iterator[Connection]:
    """A connection to *broker*."""
    connection = opened(broker)
    yield connection
    connection.close()

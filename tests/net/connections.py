"""Connections to scripted brokers, and the outcomes of their requests."""

from concurrent.futures import Future
from typing import Any

from pyklient.errors import KafkaError
from pyklient.metrics.traffic import Traffic
from pyklient.net.connection.connection import Connection
from pyklient.net.connection.connection_setup import open_connection
from pyklient.net.connection.old_brokers import OldBrokers
from pyklient.net.connection.transport import Endpoint
from tests.net.scripted import RawServer, ScriptedBroker, config_for


def opened(broker: ScriptedBroker | RawServer, timeout: float = 20.0, **options: Any) -> Connection:
    endpoint = Endpoint(broker.node_id, broker.host, broker.port)
    config, traffic = config_for(broker, **options), Traffic(endpoint.node_id)
    return open_connection(config, None, OldBrokers(), endpoint, timeout, lambda: None, traffic)


def failure_of(future: "Future[Any]", timeout: float = 20.0) -> KafkaError:
    error = future.exception(timeout)
    assert isinstance(error, KafkaError)
    return error

"""Whether a broker serves, asked through librdkafka: readiness must not depend on the client under test."""

import logging
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

__all__ = ["serves"]

_silent = logging.getLogger("tests.readiness")
_silent.addHandler(logging.NullHandler())
_silent.propagate = False


def serves(bootstrap_servers: str, brokers: int = 1) -> bool:
    """Whether *bootstrap_servers* answer and name at least *brokers* live brokers and a controller."""
    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap_servers,
        "error_cb": lambda _error: None,
        "log_level": 0,
        "socket.timeout.ms": 2000,
    }
    try:
        metadata = AdminClient(options, logger=_silent).list_topics(timeout=1)
    except KafkaException:
        return False
    return len(metadata.brokers) >= brokers and metadata.controller_id >= 0

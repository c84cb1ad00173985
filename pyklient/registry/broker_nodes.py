"""The ZooKeeper node of a broker, which has the broker's addresses. All versions of its format are supported.

Kafka 0.7 wrote ``<creator>:<host>:<port>``, and its documentation shows ``<host>:<port>``. Later versions are
JSON: version 1 has one address, and version 2 (Kafka 0.9) has one address for each security protocol. Version
3 adds the rack, version 4 (Kafka 0.10) the names of the listeners, and version 5 (Kafka 2.7) features.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyklient.config.host_and_port import host_and_port
from pyklient.registry import paths
from pyklient.registry.node_content import NodeFields, garbled, json_content, text_content

__all__ = ["BrokerEndpoint", "BrokerNode", "broker_content", "broker_ids", "parse_broker"]

_ENDPOINT: Final = re.compile(r"([^:/]+)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]{1,5})")
_OLDEST: Final = re.compile(r"(?:[^:]*:)?([^:]+|\[[^\]]+\]):([0-9]{1,5})")
_PLAINTEXT: Final = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerEndpoint:
    """One address of a broker, with the name of its listener and the security protocol of the connections to
    it."""

    listener: str
    security_protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """The content of the ZooKeeper node that a broker writes about itself. ``version`` is 0 for the format of
    Kafka 0.7."""

    broker_id: int
    endpoints: tuple[BrokerEndpoint, ...]
    rack: str | None = None
    jmx_port: int = -1
    timestamp_ms: int = -1
    version: int = 5

    def endpoint(self, security_protocol: str) -> BrokerEndpoint | None:
        """Return the first address with *security_protocol*, or None if the broker has no such address."""
        found = (each for each in self.endpoints if each.security_protocol == security_protocol)
        return next(found, None)


def broker_ids(children: Iterable[str] | None) -> list[int]:
    """Return the sorted broker ids among *children*, the names of the nodes below /brokers/ids. Names that
    are not ids are ignored."""
    return sorted(int(name) for name in children or () if re.fullmatch("[0-9]{1,10}", name))


def parse_broker(broker_id: int, content: bytes) -> BrokerNode:
    """Parse the content of a broker's ZooKeeper node, in any version of its format. Raises NodeContentError
    if *content* is malformed."""
    path = paths.broker(broker_id)
    if not content.lstrip().startswith(b"{"):
        return _parse_oldest(path, broker_id, content)
    found = NodeFields(path, content)
    version = found.number("version")
    return BrokerNode(
        broker_id,
        _endpoints(found) if version >= 2 else (_only_endpoint(found),),
        rack=found.optional_text("rack"),
        jmx_port=found.number("jmx_port", -1),
        timestamp_ms=found.number("timestamp", -1),
        version=version,
    )


def broker_content(broker: BrokerNode) -> bytes:
    """Return the content of a broker's ZooKeeper node, in version ``broker.version`` of its format.

    Versions 0 and 1 have only one address, that of the protocol PLAINTEXT. Later versions have a list of all
    addresses, and also repeat the PLAINTEXT address as ``host`` and ``port`` for old clients.
    """
    plain = broker.endpoint(_PLAINTEXT)
    host, port = (plain.host, plain.port) if plain is not None else (None, -1)
    if broker.version == 0:
        return f"{host}-{broker.timestamp_ms}:{host}:{port}".encode()
    common = {"jmx_port": broker.jmx_port, "timestamp": str(broker.timestamp_ms)}
    if broker.version == 1:
        return json_content(version=1, host=host, port=port, **common)
    values: dict[str, object] = {}
    if broker.version >= 5:
        values["features"] = {}
    if broker.version >= 4:
        values["listener_security_protocol_map"] = {
            each.listener: each.security_protocol for each in broker.endpoints
        }
    values["endpoints"] = [
        f"{each.listener}://{host_and_port(each.host, each.port)}" for each in broker.endpoints
    ]
    if broker.version >= 3 and broker.rack is not None:
        values["rack"] = broker.rack
    return json_content(**values, **common, host=host, port=port, version=broker.version)


def _parse_oldest(path: str, broker_id: int, content: bytes) -> BrokerNode:
    match = _OLDEST.fullmatch(text_content(path, content))
    if match is None:
        raise garbled(path, content, "the content is neither JSON nor <creator>:<host>:<port>")
    address = BrokerEndpoint(_PLAINTEXT, _PLAINTEXT, match[1].strip("[]"), int(match[2]))
    return BrokerNode(broker_id, (address,), version=0)


def _only_endpoint(found: NodeFields) -> BrokerEndpoint:
    return BrokerEndpoint(_PLAINTEXT, _PLAINTEXT, found.text("host"), found.number("port"))


def _endpoints(found: NodeFields) -> tuple[BrokerEndpoint, ...]:
    protocols = found.texts_by_text("listener_security_protocol_map")
    endpoints = []
    for text in found.texts("endpoints"):
        match = _ENDPOINT.fullmatch(text)
        if match is None:
            found.wrong(f"{text!r} in 'endpoints' is not <listener>://<host>:<port>")
        listener = match[1]
        endpoints.append(BrokerEndpoint(listener, protocols.get(listener, listener), match[2], int(match[3])))
    if not endpoints:
        found.wrong("'endpoints' names no address")
    return tuple(endpoints)

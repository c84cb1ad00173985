"""The reference broker: Kafka's protocol over real segment files, for tests and first runs."""

from pyklient.broker.broker import Broker

__all__ = ["Broker"]

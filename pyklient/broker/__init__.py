"""The reference broker for tests and first runs: it speaks Kafka's protocol and writes Kafka's segments."""

from pyklient.broker.broker import Broker

__all__ = ["Broker"]

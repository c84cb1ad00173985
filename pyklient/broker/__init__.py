"""The reference broker: a Kafka broker in Python for tests, and to try pyklient without a cluster. It
speaks Kafka's protocol, and stores records in segment files in Kafka's format."""

from pyklient.broker.broker import Broker

__all__ = ["Broker"]

"""Servers that the tests start: Kafka and ZooKeeper from Maven's jars, and pyklient's own broker."""

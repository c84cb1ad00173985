"""Writes rows to topics: the sink of ``format("pyklient")``, and ``PartitionSender``."""

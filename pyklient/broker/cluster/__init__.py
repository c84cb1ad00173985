"""The metadata that all nodes of a cluster share: nodes, topics, leaders, settings and producer ids."""

"""The metadata that all nodes of a cluster share: the nodes, the topics with their settings and leaders, and
the producer ids."""

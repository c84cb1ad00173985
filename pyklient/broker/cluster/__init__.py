"""What the cluster knows: topics with their ids, partitions and settings."""

"""What one node stores: the logs of its partitions, in segment files with indexes, and their recovery."""

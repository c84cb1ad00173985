"""The logs that one node stores: segment files with indexes, their recovery and their retention."""

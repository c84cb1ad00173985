"""A broker's entries in ZooKeeper: itself, its topics, and offsets that old clients commit."""

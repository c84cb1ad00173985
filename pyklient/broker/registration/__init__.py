"""The entries of a broker in ZooKeeper: the broker itself, its topics, and offsets that old clients
commit."""

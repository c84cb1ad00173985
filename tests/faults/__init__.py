"""Faults between clients and real brokers, by seed: the proxy that makes them and the runs behind it."""

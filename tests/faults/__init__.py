"""Faults between clients and real brokers, chosen by seed: the proxy that injects them and the runs behind
it."""

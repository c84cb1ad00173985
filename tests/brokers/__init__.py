"""Real brokers of eight releases of Kafka: what pyklient writes, reads and commits there.

`make test-brokers` runs these tests on all eight; `make test` on two of them.
"""

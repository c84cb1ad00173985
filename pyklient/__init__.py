"""pyklient: a fast Python client for Apache Kafka."""

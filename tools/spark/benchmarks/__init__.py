"""pyklient, the connector of Spark and confluent-kafka on Spark: `make bench-spark`."""

"""The properties of Kafka's classic clients: their names, defaults and rules in three versions of Kafka."""

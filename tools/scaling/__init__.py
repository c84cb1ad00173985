"""Measures how the cost of a record grows with the number of records, partitions, brokers and batches."""

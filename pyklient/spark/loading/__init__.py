"""Loads topics into a Parquet data set: ``pyklient.spark.load``."""

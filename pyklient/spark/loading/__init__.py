"""``pyklient.spark.load``, which loads topics into a Parquet data set."""

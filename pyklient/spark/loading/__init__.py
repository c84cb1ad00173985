"""``pyklient.spark.load``, which stores the records of topics in a Parquet data set."""

"""The same jobs with ``format("kafka")`` and with ``format("pyklient")``, which must give the same results.

Both run on PySpark 4.0.0, the oldest version that pyklient supports, and the newest whose connector can be
fetched completely.
"""

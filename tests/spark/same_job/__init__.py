"""The same job, the word changed: what runs with ``format("kafka")`` and with ``format("pyklient")`` alike.

Both run on PySpark 4.0.0, the oldest that pyklient supports, and the newest whose connector can be had whole.
"""

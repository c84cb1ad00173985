"""``spark.read.format("pyklient")`` on real brokers."""

from pyspark.sql import DataFrame, SparkSession

from pyklient import Producer
from tests.servers.fixtures import NewTopic


def read(spark: SparkSession, bootstrap: str, **options: str) -> DataFrame:
    reader = spark.read.format("pyklient").option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**options).load()


def test_a_topic_is_read_without_registering_anything(
    spark: SparkSession, bootstrap: str, new_topic: NewTopic
) -> None:
    topic = new_topic(2)
    with Producer(bootstrap) as producer:
        for number in range(10):
            producer.send(
                topic, b"value %d" % number, key=b"key", partition=number % 2, timestamp_ms=1000 + number
            )

    rows = read(spark, bootstrap, subscribe=topic).orderBy("timestamp").collect()

    assert [
        (row.key, row.value, row.topic, row.partition, row.offset, row.timestampType) for row in rows
    ] == [(b"key", b"value %d" % number, topic, number % 2, number // 2, 0) for number in range(10)]

"""The topics that the jobs read: keys, nulls, headers, times, transactions, deleted records."""

from typing import NamedTuple

from tests.servers.topics import create_topic
from tests.spark.topics import delete_before, fill, transaction

__all__ = ["Topics", "make_topics"]


class Topics(NamedTuple):
    """The names of the topics of one run, which have the same prefix."""

    prefix: str
    clicks: str
    """60 records in 3 partitions in turn, one for each second from second 1 on; some keys are null, some
    records have headers."""
    views: str
    """5 records, some with null values."""
    empty: str
    paid: str
    """Two records, two records of an aborted transaction, two of a committed one."""
    old: str
    """10 records, of which the first 4 are deleted."""


def make_topics(bootstrap: str, prefix: str) -> Topics:
    """Create the topics and fill them."""
    topics = Topics(
        prefix,
        create_topic(bootstrap, f"{prefix}-clicks", 3),
        create_topic(bootstrap, f"{prefix}-views", 1),
        create_topic(bootstrap, f"{prefix}-empty", 2),
        create_topic(bootstrap, f"{prefix}-paid", 1),
        create_topic(bootstrap, f"{prefix}-old", 1),
    )
    clicks = [
        {
            "value": b'{"page": %d}' % (number % 7),
            "key": b"user-%d" % (number % 5) if number % 4 else None,
            "partition": number % 3,
            "timestamp": 1000 * (number + 1),
            "headers": [("trace", b"%d" % number), ("none", None)] if number % 10 == 0 else [],
        }
        for number in range(60)
    ]
    fill(bootstrap, topics.clicks, clicks)
    views = [{"value": None if number % 2 else b"", "key": b"%d" % number} for number in range(5)]
    fill(bootstrap, topics.views, views)
    fill(bootstrap, topics.paid, [{"value": b"plain", "timestamp": 1}, {"value": b"plain", "timestamp": 2}])
    transaction(bootstrap, topics.paid, [b"no", b"no"], lambda producer: producer.abort_transaction())
    transaction(bootstrap, topics.paid, [b"yes", b"yes"], lambda producer: producer.commit_transaction())
    fill(bootstrap, topics.old, [{"value": b"%d" % number, "timestamp": number} for number in range(10)])
    delete_before(bootstrap, topics.old, 4)
    return topics

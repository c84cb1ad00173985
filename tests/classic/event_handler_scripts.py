"""Scripts for an event handler: batches of messages, and what the brokers answer."""

from typing import Final

from tests.classic.scripted_cluster import NOT_LEADER, Message, Script

__all__ = ["SCRIPTS"]


def _keyed(*keys: str, topic: str = "t") -> list[Message]:
    return [(topic, key, "", f"of {key}".replace(" ", "-")) for key in keys]


def _keyless(*values: str, topic: str = "t") -> list[Message]:
    return [(topic, "", "", value) for value in values]


_MANY: Final = _keyed("a", "b", "c", "d", "hello", "polygenelubricants", "user-1")
_ACKS: Final = {"request.required.acks": "1"}
_ONE_RETRY: Final = {**_ACKS, "message.send.max.retries": "1"}
_NO_RETRY: Final = {**_ACKS, "message.send.max.retries": "0"}

SCRIPTS: Final = [
    Script(name="keys choose partitions", batches=[_MANY], properties=_ACKS),
    Script(name="acks of -1", batches=[_MANY], properties={"request.required.acks": "-1"}),
    Script(name="acks of 0 get no answer", batches=[_MANY, _keyed("x"), _keyed("y")]),
    Script(
        name="row 36: one partition has another leader",
        batches=[_MANY],
        properties=_ACKS,
        answers=[{0: NOT_LEADER}, "ok"],
    ),
    Script(
        name="row 37: three retries make four attempts",
        batches=[_MANY],
        properties=_ACKS,
        answers=[{0: NOT_LEADER, 1: NOT_LEADER}],
    ),
    Script(
        name="row 37: no retry makes one attempt",
        batches=[_MANY, _keyed("x")],
        properties=_NO_RETRY,
        answers=[{0: NOT_LEADER, 1: NOT_LEADER}, "ok"],
    ),
    Script(
        name="row 38: messages without a key share a partition",
        batches=[_keyless("1", "2", "3"), _keyless("4"), _keyless("5", "6")],
        properties=_ACKS,
        leaders=[{"t": [1, 1, 1, 1, 1]}],
        renames_partitions=True,
    ),
    Script(
        name="row 38: a partition without a leader is never chosen",
        batches=[_keyless("1", "2"), *[_keyless("3")] * 5],
        properties={**_ACKS, "topic.metadata.refresh.interval.ms": "0"},
        leaders=[{"t": [0, 0, 1, 0]}],
    ),
    Script(
        name="row 40: the partition key is not stored",
        batches=[[("t", "a", "b", "1"), ("t", "b", "a", "2"), ("t", "", "a", "3"), ("t", "a", "", "4")]],
        properties=_ACKS,
    ),
    Script(
        name="row 41: an encoder fails in a synchronous producer",
        batches=[[*_keyed("a"), ("t", "b", "", "bad"), *_keyed("c")], _keyed("d")],
        properties=_ACKS,
    ),
    Script(
        name="row 41: an encoder fails in an asynchronous producer",
        batches=[[*_keyed("a"), ("t", "b", "", "bad"), ("t", "bad", "", "v"), *_keyed("c")], _keyed("d")],
        properties={**_ACKS, "producer.type": "async"},
    ),
    Script(
        name="a leader is missing at first",
        batches=[_MANY],
        properties=_ACKS,
        leaders=[{"t": [0, 1]}, {"t": [0, 1]}, {"t": [1, 1]}],
    ),
    Script(name="a leader is missing", batches=[_MANY], properties=_ONE_RETRY, leaders=[{"t": [1, 0]}]),
    Script(
        name="no partition has a leader",
        batches=[_keyless("1")],
        properties=_ONE_RETRY,
        leaders=[{"t": [0, 0]}],
    ),
    Script(name="the topic is unknown", batches=[_keyed("a")], properties=_ONE_RETRY, leaders=[{}]),
    Script(
        name="the topic is unknown at first",
        batches=[[*_keyed("a"), *_keyless("b", topic="u")]],
        properties=_ACKS,
        leaders=[{"t": [1]}, {"t": [1]}, {"t": [1]}, {"t": [1], "u": [1]}],
    ),
    Script(
        name="the connection breaks",
        batches=[_MANY, _keyed("x")],
        properties=_ACKS,
        answers=["hang up", "ok"],
    ),
    Script(
        name="the connection breaks each time", batches=[_MANY], properties=_ONE_RETRY, answers=["hang up"]
    ),
    Script(
        name="an answer lacks a partition", batches=[_MANY], properties=_ACKS, answers=["incomplete", "ok"]
    ),
    Script(
        name="the leader moves",
        batches=[_keyed("a", "b", "c")],
        properties=_ACKS,
        leaders=[{"t": [1]}, {"t": [2]}],
        answers=[{0: NOT_LEADER}, "ok"],
    ),
    Script(
        name="two topics, and a new one",
        batches=[
            [*_keyed("a"), *_keyed("a", topic="u")],
            [*_keyed("b", topic="u"), *_keyed("b", topic="v")],
        ],
        properties=_ACKS,
        leaders=[{"t": [1], "u": [1], "v": [1]}],
    ),
    Script(
        name="a partitioner crashes", batches=[_keyed("a", "b")], properties=_ONE_RETRY, partitioner="crash"
    ),
    Script(name="a partition below 0", batches=[_keyed("a")], properties=_ONE_RETRY, partitioner="-1"),
    Script(name="a partition too high", batches=[_keyed("a")], properties=_ONE_RETRY, partitioner="2"),
    Script(
        name="only some topics are compressed",
        batches=[[*_keyed("a", "b"), *_keyed("a", "b", topic="u")]],
        properties={**_ACKS, "compression.codec": "gzip", "compressed.topics": "u,v"},
        leaders=[{"t": [1], "u": [1]}],
    ),
    Script(
        name="all topics are compressed",
        batches=[_MANY],
        properties={**_ACKS, "compression.codec": "snappy"},
    ),
    Script(
        name="metadata before each send",
        batches=[_keyed("a"), _keyed("b")],
        properties={**_ACKS, "topic.metadata.refresh.interval.ms": "0"},
    ),
    Script(
        name="metadata only after failures",
        batches=[_keyed("a"), _keyed("b")],
        properties={**_ACKS, "topic.metadata.refresh.interval.ms": "-1"},
        answers=["ok", {0: NOT_LEADER, 1: NOT_LEADER}, "ok"],
    ),
]

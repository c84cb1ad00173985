"""A wrong argument is refused by its name, with what it takes, before anybody is asked."""

from collections.abc import Callable
from typing import Any

import pytest

from pyklient import (
    Admin,
    ConfigurationError,
    ConsumerConnector,
    KafkaTimeoutError,
    OffsetAndMetadata,
    Producer,
    SimpleConsumer,
    TopicPartition,
    read,
)

_NOWHERE = "127.0.0.1:1"
_PARTITION = TopicPartition("t", 0)
_TOPIC_PARTITION = r"a TopicPartition\('clicks', 0\)"
_BYTES: Any = b"x"
_WHOLE = "takes a whole number, not"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda it: it.stream(["a", "b"]),
            r"each topic of stream\('clicks', 'views'\) takes a str, not \['a'",
        ),
        (lambda it: it.stream("a", None), "takes a str, not None"),
        (
            lambda it: it.create_message_streams(["a"]),
            r"topic_streams takes a mapping such as .*, not \['a'\]",
        ),
        (lambda it: it.create_message_streams("a"), "topic_streams takes a mapping"),
        (lambda it: it.create_message_streams({"a": "1"}), rf"topic_streams\['a'\] {_WHOLE} '1'"),
        (lambda it: it.create_message_streams({"a": True}), rf"topic_streams\['a'\] {_WHOLE} True"),
        (lambda it: it.create_message_streams({7: 1}), "a topic in topic_streams takes a str, not 7"),
        (lambda it: it.commit_offsets(17), "offsets takes a mapping such as .*, not 17"),
        (lambda it: it.commit_offsets([_PARTITION]), "offsets takes a mapping"),
        (lambda it: it.commit_offsets({"t": 17}), f"offsets takes {_TOPIC_PARTITION}, not 't'"),
        (
            lambda it: it.commit_offsets({("t", "0"): 17}),
            f"the partition of topic 't' in offsets {_WHOLE} '0'",
        ),
        (lambda it: it.commit_offsets({_PARTITION: "17"}), rf"offsets\[t-0\] {_WHOLE} '17'"),
        (lambda it: it.commit_offsets({_PARTITION: None}), rf"offsets\[t-0\] {_WHOLE} None"),
        (
            lambda it: it.commit_offsets({_PARTITION: OffsetAndMetadata(1, metadata=_BYTES)}),
            r"the metadata of offsets\[t-0\] takes a str, not b'x'",
        ),
        (
            lambda it: it.set_rebalance_listener(None),
            "None is not a rebalance listener: write a subclass of ConsumerRebalanceListener",
        ),
    ],
)
def test_a_connector_names_what_it_cannot_take(call: Callable[[Any], object], said: str) -> None:
    with ConsumerConnector(_NOWHERE, group_id="g") as connector, pytest.raises(TypeError, match=said):
        call(connector)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda it: it.fetch("t", "0", 0), f"partition {_WHOLE} '0'"),
        (lambda it: it.fetch(b"t", 0, 0), "topic takes a str, not b't'"),
        (lambda it: it.fetch("t", 0, None), f"the offset of t-0 {_WHOLE} None"),
        (lambda it: it.fetch("t", 0, 1.5), f"the offset of t-0 {_WHOLE} 1.5"),
        (lambda it: it.fetch("t", 0, 0, "all"), f"max_bytes {_WHOLE} 'all'"),
        (lambda it: it.multifetch([_PARTITION]), "positions takes a mapping"),
        (lambda it: it.multifetch({"t": 0}), f"positions takes {_TOPIC_PARTITION}, not 't'"),
        (lambda it: it.get_offsets_before("t", None), f"partition {_WHOLE} None"),
        (lambda it: it.get_offsets_before("t", 0, "earliest"), f"timestamp_ms {_WHOLE} 'earliest'"),
        (lambda it: it.get_offsets_before("t", 0, -1, 1.0), f"max_offsets {_WHOLE} 1.0"),
    ],
)
def test_a_simple_consumer_names_what_it_cannot_take(call: Callable[[Any], object], said: str) -> None:
    with SimpleConsumer(_NOWHERE) as consumer, pytest.raises(TypeError, match=said):
        call(consumer)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda it: it.create_topic(7), "name takes a str, not 7"),
        (lambda it: it.create_topic("t", "3"), f"partitions {_WHOLE} '3'"),
        (lambda it: it.create_topic("t", replication_factor=None), f"replication_factor {_WHOLE} None"),
        (lambda it: it.create_topic("t", config=["a"]), "config takes a mapping such as .*, not"),
        (lambda it: it.create_topic("t", config={"a": None}), r"config\['a'\] takes a str, not None"),
        (lambda it: it.create_partitions("t", "4"), f"total {_WHOLE} '4'"),
        (lambda it: it.delete_topic(["t"]), r"name takes a str, not \['t'\]"),
        (lambda it: it.topics("all"), "internal takes True or False, not 'all'"),
        (lambda it: it.describe_topic(None), "name takes a str, not None"),
        (lambda it: it.describe_group(3), "group_id takes a str, not 3"),
        (lambda it: it.group_offsets(b"g"), "group_id takes a str, not b'g'"),
        (lambda it: it.group_lag(None), "group_id takes a str, not None"),
        (lambda it: it.delete_group(("g",)), "group_id takes a str"),
        (
            lambda it: it.start_offsets("t"),
            r"partitions takes several partitions, such as \[Topic.*, not 't'",
        ),
        (lambda it: it.end_offsets(_PARTITION), "partitions takes several partitions"),
        (lambda it: it.end_offsets(["t"]), f"partitions takes {_TOPIC_PARTITION}, not 't'"),
        (lambda it: it.end_offsets([("t", "0")]), f"the partition of topic 't' in partitions {_WHOLE} '0'"),
        (lambda it: it.groups("10"), "timeout takes a number of seconds, not '10'"),
    ],
)
def test_an_admin_names_what_it_cannot_take(call: Callable[[Any], object], said: str) -> None:
    with Admin(_NOWHERE) as admin, pytest.raises(TypeError, match=said):
        call(admin)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda it: it.send_many(["t"], [b"x"]), r"topic takes a str, not \['t'\]"),
        (lambda it: it.send_many("t", "abc"), "values takes a list or another iterable, not 'abc'"),
        (lambda it: it.send_many("t", b"abc"), "values takes a list or another iterable, not b'abc'"),
        (lambda it: it.send_many("t", {b"k": b"v"}), "values takes a list or another iterable, not {"),
        (lambda it: it.send_many("t", None), "values takes a list or another iterable, not None"),
        (lambda it: it.send_many("t", [b"x"], b"k"), "keys takes a list or another iterable, not b'k'"),
        (lambda it: it.send_many("t", [b"x"], headers=7), "headers takes a list or another iterable, not 7"),
        (
            lambda it: it.send_many("t", [b"x"], timestamps_ms=1_700_000_000_000),
            "timestamps_ms takes a list or another iterable, not 1700000000000",
        ),
        (
            lambda it: it.send_many("t", [b"x"], headers=[("a", b"1")]),
            "not 'a'; headers is a list of such pairs, and send_many takes one such list for each value",
        ),
        (lambda it: it.flush("5"), "timeout takes a number of seconds, not '5'"),
        (lambda it: it.close("5"), "timeout takes a number of seconds, not '5'"),
    ],
)
def test_a_producer_names_what_it_cannot_take(call: Callable[[Any], object], said: str) -> None:
    with Producer(_NOWHERE) as producer, pytest.raises(TypeError, match=said):
        call(producer)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("a b", "'a b' is not a valid name of a topic: only a-z"),
        ("t" * 250, "it has 250 characters; at most 249 are allowed"),
        ("..", r"'\.\.' is not a valid name of a topic"),
        ("^a.*", r"only a-z.* call stream\(pattern="),
        ("", "empty"),
    ],
    ids=["blank", "long", "dots", "pattern", "empty"],
)
@pytest.mark.parametrize(
    "call",
    [
        lambda it, name: it.stream("t", name),
        lambda it, name: it.create_message_streams({"t": 1, name: 1}),
        lambda it, name: read(_NOWHERE, ["t", name]),
    ],
    ids=["stream", "create_message_streams", "read"],
)
def test_a_name_that_no_topic_can_have_is_not_waited_for(
    call: Callable[[Any, str], object], name: str, said: str
) -> None:
    with (
        ConsumerConnector(_NOWHERE, group_id="g") as connector,
        pytest.raises(ConfigurationError, match=said),
    ):
        call(connector, name)


@pytest.mark.parametrize("topics", [None, 7, b"t", [7], _PARTITION, {"t": 1}], ids=repr)
def test_a_read_says_how_topics_are_named(topics: Any) -> None:
    with pytest.raises(TypeError, match=r"topics takes (the name of a topic, or a list|a str, not)"):
        read(_NOWHERE, topics)


def test_a_time_that_has_passed_is_no_time_left() -> None:
    with Admin(_NOWHERE) as admin, pytest.raises(KafkaTimeoutError):
        admin.topics(timeout=-1)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda it: it.create_topic("t", 2**31), "partitions=2147483648 is out of range"),
        (
            lambda it: it.create_topic("t", replication_factor=2**15),
            "replication_factor=32768 is out of range",
        ),
        (lambda it: it.create_partitions("t", 0), "total=0 is out of range; choose a number from 1 to"),
        (lambda it: it.delete_topic("t" * 40_000), "name has 40,000 bytes; at most 32,767 are allowed"),
        (lambda it: it.delete_topic("\ud800"), r"name='\\ud800' cannot be encoded as UTF-8"),
        (
            lambda it: it.end_offsets([("t", -1)]),
            "the partition of topic 't' in partitions=-1 is out of range",
        ),
        (lambda it: it.topics(timeout=float("nan")), "timeout=nan is out of range"),
        (lambda it: it.topics(timeout=float("inf")), "timeout=inf is out of range"),
    ],
)
def test_a_number_or_a_text_that_no_request_can_carry_is_refused(
    call: Callable[[Any], object], said: str
) -> None:
    with Admin(_NOWHERE) as admin, pytest.raises(ConfigurationError, match=said):
        call(admin)

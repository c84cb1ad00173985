"""The messages of a batch of a classic producer are sorted by partition, in both kernels."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.classic.partitioners import ByteArrayPartitioner, DefaultPartitioner
from tests.kernel.kernels import outcome_of

PARTITIONS = {"t": [0, 1, 2], "u": [4, 7], "one": [9]}
KEYLESS = {"t": 2, "u": 4, "one": 9}
HASHED = {DefaultPartitioner: (bytes, str), ByteArrayPartitioner: (bytes,)}

partition_keys = st.none() | st.binary(max_size=9) | st.text(st.characters(exclude_categories=()), max_size=9)
message_fields = st.tuples(
    st.sampled_from(sorted(PARTITIONS)),
    st.none() | st.binary(max_size=3),
    partition_keys | st.integers() | st.binary().map(bytearray),
)


class Choices:
    """The functions that the kernel calls to choose partitions, and a record of these calls."""

    def __init__(self, partitioner: Any) -> None:
        self.partitioner = partitioner
        self.calls: list[Any] = []

    def partitions(self, topic: str) -> list[int]:
        self.calls.append(("partitions", topic))
        return PARTITIONS[topic]

    def without_key(self, topic: str) -> int:
        self.calls.append(("without key", topic))
        return KEYLESS[topic]

    def with_key(self, topic: str, key: Any) -> int:
        self.calls.append(("with key", topic, key))
        index: int = self.partitioner.partition(key, len(PARTITIONS[topic]))
        return PARTITIONS[topic][index]


def sort(kernel: Any, messages: list[Any], choices: Choices, hashed: tuple[type, ...]) -> Any:
    values = [each.message for each in messages]
    keys = [each.key for each in messages]
    return kernel.by_partition(
        messages, values, keys, hashed, choices.partitions, choices.without_key, choices.with_key
    )


@settings(max_examples=150)
@given(
    fields=st.lists(message_fields, max_size=25),
    partitioner=st.sampled_from([DefaultPartitioner(), ByteArrayPartitioner()]),
    subclass=st.booleans(),
)
def test_messages_go_where_the_partitioner_sends_them(
    kernel: Any, fields: list[Any], partitioner: Any, subclass: bool
) -> None:
    kind = type("Dated", (kernel.KeyedMessage,), {}) if subclass else kernel.KeyedMessage
    messages = [
        kind(topic, b"%d" % at, key=key, part_key=part) for at, (topic, key, part) in enumerate(fields)
    ]
    hashed = outcome_of(sort, kernel, messages, Choices(partitioner), HASHED[type(partitioner)])
    plain = outcome_of(sort, kernel, messages, Choices(partitioner), ())
    assert hashed == plain
    if isinstance(hashed, tuple):
        assert hashed[0] is TypeError
        return
    expected: dict[Any, list[Any]] = {}
    for each in messages:
        partition = KEYLESS[each.topic]
        if each.partition_key is not None:
            partition = Choices(partitioner).with_key(each.topic, each.partition_key)
        expected.setdefault((each.topic, partition), []).append(each)
    assert [(group[:2], group[2]) for group in hashed] == list(expected.items())
    for _, _, found, values, keys in hashed:
        assert values == [each.message for each in found]
        assert keys == (None if all(each.key is None for each in found) else [each.key for each in found])


def test_each_function_is_called_when_a_message_first_needs_it(kernel: Any) -> None:
    fields: list[Any] = [("t", "a"), ("u", None), ("t", b"b"), ("t", None), ("t", 5), ("u", None), ("t", 5)]
    messages = [kernel.KeyedMessage(topic, None, part_key=key) for topic, key in fields]
    choices = Choices(DefaultPartitioner())
    groups = sort(kernel, messages, choices, (bytes, str))
    assert choices.calls == [
        ("partitions", "t"),
        ("without key", "u"),
        ("without key", "t"),
        ("with key", "t", 5),
        ("with key", "t", 5),
    ]
    assert {group[4] for group in groups} == {None}


@pytest.mark.parametrize("partitioner", ["partitions", "without_key", "with_key"])
def test_an_error_of_a_function_is_raised(kernel: Any, partitioner: str) -> None:
    choices = Choices(DefaultPartitioner())
    messages = [kernel.KeyedMessage("?", None, part_key=key) for key in (None, b"a", 5)]
    wanted = {"without_key": messages, "partitions": messages[1:], "with_key": messages[2:]}[partitioner]
    with pytest.raises(KeyError, match=r"\?"):
        sort(kernel, wanted, choices, (bytes,))
    assert [call[0] for call in choices.calls] == [partitioner.replace("_", " ")]


def test_the_smallest_hash_goes_to_the_first_partition(kernel: Any) -> None:
    message = kernel.KeyedMessage("t", b"a", part_key="polygenelubricants")
    choices = Choices(None)
    assert sort(kernel, [message], choices, (bytes, str)) == [("t", 0, [message], [b"a"], None)]


def test_as_many_values_and_keys_are_needed_as_messages(kernel: Any) -> None:
    message = kernel.KeyedMessage("t", b"a")
    for values, keys in (([], None), ([b"a"], [])):
        with pytest.raises(ValueError, match="as many values and keys as messages"):
            kernel.by_partition([message], values, keys, (), None, None, None)

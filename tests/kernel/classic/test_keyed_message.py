"""KeyedMessage and the loops over the messages of a batch, in both kernels."""

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient import KeyedMessage
from tests.kernel.kernels import COMPILED, outcome_of


class Holder:
    """An object that refers to its message."""

    message: Any


def test_a_message_has_its_attributes_equality_and_text(kernel: Any) -> None:
    message = kernel.KeyedMessage("t", b"a", key=b"k")
    assert (message.topic, message.message, message.key, message.part_key) == ("t", b"a", b"k", None)
    assert (message.partition_key, kernel.KeyedMessage("t", b"a", key=b"k", part_key=3).partition_key) == (
        b"k",
        3,
    )
    assert message == kernel.KeyedMessage("t", b"a", key=b"k")
    assert message != kernel.KeyedMessage("t", b"a", key=b"k", part_key=3)
    assert message != ("t", b"a", b"k", None)
    assert repr(message) == "KeyedMessage('t', b'a', key=b'k')"
    assert repr(kernel.KeyedMessage("t", b"a", part_key=3)) == "KeyedMessage('t', b'a', key=None, part_key=3)"
    assert kernel.KeyedMessage("t", b"a", part_key=None, key=b"k") == message
    message.key = None
    assert message.key is None


def test_wrong_uses_are_the_errors_of_python(kernel: Any) -> None:
    message = kernel.KeyedMessage("t", b"a")
    with pytest.raises(TypeError, match="the topic of a KeyedMessage must be a str, not 5"):
        kernel.KeyedMessage(5, b"a")
    with pytest.raises(TypeError, match="unexpected keyword argument 'value'"):
        kernel.KeyedMessage("t", b"a", key=b"k", value=b"a")
    with pytest.raises(TypeError, match="unhashable"):
        hash(message)
    with pytest.raises(AttributeError, match="the key of a KeyedMessage cannot be deleted"):
        del message.key
    with pytest.raises(AttributeError):
        message.unknown = 1


def test_a_subclass_may_have_more_attributes(kernel: Any) -> None:
    message = type("Dated", (kernel.KeyedMessage,), {})("t", b"a")
    message.date = 5
    assert (message.topic, message.date) == ("t", 5)
    del message.date
    assert not hasattr(message, "date")
    assert message == kernel.KeyedMessage("t", b"a")


def test_the_garbage_collector_knows_only_messages_that_can_be_part_of_a_cycle(kernel: Any) -> None:
    plain, holder = kernel.KeyedMessage("t", b"a", key="k", part_key=1), Holder()
    assert gc.is_tracked(plain) == (kernel is not COMPILED)
    holder.message = kernel.KeyedMessage("t", holder)
    changed, again, topic = Holder(), Holder(), type("Topic", (str,), {})("t")
    plain.message, changed.message = changed, plain
    again.message = kernel.KeyedMessage("t", b"a")
    again.message.__init__("t", again)
    topic.message = kernel.KeyedMessage(topic, b"a")
    keyed = [Holder(), Holder()]
    keyed[0].message = kernel.KeyedMessage("t", b"a", key=keyed[0])
    keyed[1].message = kernel.KeyedMessage("t", b"a", part_key=keyed[1])
    left = [weakref.ref(each) for each in (holder, changed, again, topic, *keyed)]
    del holder, changed, again, topic, plain, keyed
    gc.collect()
    assert [each() for each in left] == [None] * 6


def test_the_messages_of_a_large_batch_do_not_make_the_garbage_collector_run_again_and_again() -> None:
    collections: list[str] = []
    messages = [COMPILED.KeyedMessage("t", b"a") for _ in range(10_000)]
    del messages[:]
    gc.callbacks.append(lambda phase, _: collections.append(phase))
    try:
        messages.extend(COMPILED.KeyedMessage("t", b"a") for _ in range(10_000))
    finally:
        gc.callbacks.pop()
    # Other threads may cause one. With each message as garbage to look at, there are 28 beginnings and ends.
    assert len(collections) <= 8


def test_a_million_messages_inside_each_other_are_freed(kernel: Any) -> None:
    freed = Holder()
    left, message = weakref.ref(freed), kernel.KeyedMessage("t", freed)
    for _ in range(1_000_000):
        message = kernel.KeyedMessage("t", message)
    del message, freed
    assert left() is None


@pytest.mark.parametrize("name", ["topic", "message", "key", "part_key"])
def test_a_member_of_the_compiled_class_neither_hides_a_value_from_the_garbage_collector_nor_deletes_it(
    name: str,
) -> None:
    message, member = COMPILED.KeyedMessage("t", b"a"), getattr(COMPILED.KeyedMessage, name)
    with pytest.raises(AttributeError):
        member.__set__(message, [])
    with pytest.raises(AttributeError):
        member.__delete__(message)
    assert message == COMPILED.KeyedMessage("t", b"a")
    own: Any = type("Own", (COMPILED.KeyedMessage,), {name: property(lambda _: 5)})
    changed = own("t", b"a")
    with pytest.raises(AttributeError):
        setattr(changed, name, 6)


def test_a_message_without_a_topic_is_not_sorted_by_topic(kernel: Any) -> None:
    for topic in (None, 5, type("Topic", (str,), {})("t")):
        message = kernel.KeyedMessage("t", b"a")
        message.topic = topic
        assert kernel.by_topic([message]) is None
        assert kernel.by_topic([kernel.KeyedMessage("t", b"a"), message]) is None


def test_objects_of_a_subclass_of_bytes_are_counted(kernel: Any) -> None:
    text = type("Text", (bytes,), {})(b"abc")
    assert [kernel.count_within([text], [text], 0, most, 9) for most in (14, 15)] == [0, 1]


def test_a_message_is_pickled_and_copied() -> None:
    message = KeyedMessage("t", b"a", key=b"k", part_key="p")
    assert pickle.loads(pickle.dumps(message)) == copy.copy(message) == message
    assert pickle.dumps(message).count(b"_kernel") == 0


def outcome(kernel: Any, fields: list[Any]) -> Any:
    messages = [
        each if isinstance(each, int) else kernel.KeyedMessage(each[0], each[1], **each[2]) for each in fields
    ]
    groups = outcome_of(kernel.by_topic, tuple(messages))
    assert groups == outcome_of(kernel.by_topic, messages)
    if not isinstance(groups, list):
        return groups
    return [(topic, [messages.index(each) for each in found], values) for topic, found, values in groups]


@pytest.mark.parametrize(
    ("fields", "groups"),
    [
        ([], []),
        (
            [("t", b"a", {}), ("u", None, {}), ("t", b"b", {})],
            [("t", [0, 2], [b"a", b"b"]), ("u", [1], [None])],
        ),
        ([("t", b"a", {}), ("t", b"b", {"key": b"k"})], None),
        ([("t", b"a", {"part_key": 0})], None),
        ([("t", "a", {})], None),
        ([("t", bytearray(b"a"), {})], None),
        ([5], None),
    ],
)
def test_messages_without_keys_are_sorted_by_topic(kernel: Any, fields: list[Any], groups: Any) -> None:
    assert outcome(kernel, fields) == groups


def test_what_is_no_sequence_of_messages_is_an_error(kernel: Any) -> None:
    other = type("Subclass", (kernel.KeyedMessage,), {})
    assert kernel.by_topic([other("t", b"a")]) is None
    with pytest.raises(TypeError):
        kernel.by_topic(5)


@pytest.mark.parametrize(
    ("fields", "keeps_keys", "found"),
    [
        ([], True, ([], None)),
        ([("t", b"a", {"key": b"k"}), ("u", None, {})], True, ([b"a", None], [b"k", None])),
        ([("t", b"a", {"part_key": "p"}), ("u", None, {})], False, ([b"a", None], None)),
        ([("t", b"a", {"key": b"k"})], False, None),
        ([("t", b"a", {"key": "k"})], True, None),
        ([("t", "a", {"key": b"k"})], True, None),
        ([("t", bytearray(b"a"), {})], True, None),
        ([("t", b"a", {"key": bytearray(b"k")})], True, None),
        ([5], True, None),
    ],
)
def test_values_and_keys_that_are_bytes_are_taken_as_they_are(
    kernel: Any, fields: list[Any], keeps_keys: bool, found: Any
) -> None:
    messages = [
        each if isinstance(each, int) else kernel.KeyedMessage(each[0], each[1], **each[2]) for each in fields
    ]
    assert (
        kernel.plain_bytes(messages, keeps_keys) == kernel.plain_bytes(tuple(messages), keeps_keys) == found
    )
    other = type("Subclass", (kernel.KeyedMessage,), {})
    assert kernel.plain_bytes([other("t", b"a")], keeps_keys) is None


contents = st.lists(st.none() | st.binary(max_size=30), max_size=20)


@settings(max_examples=100)
@given(values=contents, keyed=st.booleans(), begin=st.integers(0, 22), most=st.integers(0, 400))
def test_records_are_counted_until_their_bytes_are_too_many(
    kernel: Any, values: Any, keyed: bool, begin: int, most: int
) -> None:
    keys = values[::-1] if keyed else None
    expected = 0
    for end in range(begin + 1, len(values) + 1):
        sizes = [len(each or b"") for each in (*values[begin:end], *(keys or [])[begin:end])]
        if sum(sizes) + 9 * (end - begin) <= most:
            expected = end - begin
    assert kernel.count_within(values, keys, begin, most, 9) == expected

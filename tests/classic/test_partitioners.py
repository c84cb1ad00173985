"""The partitioners of the classic producer, with the hash codes of Java."""

import pytest

from pyklient.classic.java_hashes import java_hash, safe_abs
from pyklient.classic.partitioners import ByteArrayPartitioner, DefaultPartitioner
from tests.oracles.process import Oracle
from tests.run.seed import dice

INT_MIN = -(2**31)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("hello", 99162322),
        (b"hello", 127791473),
        (bytearray(b"\xff"), 30),
        (2**31, INT_MIN),
        (-(2**40), -256),
    ],
)
def test_a_key_has_the_hash_of_an_object_of_java(key: object, expected: int) -> None:
    assert java_hash(key) == expected


def test_row_39_a_key_goes_to_the_partition_of_its_java_hash() -> None:
    assert DefaultPartitioner().partition("polygenelubricants", 7) == 0
    assert DefaultPartitioner().partition("hello", 4) == 2
    assert ByteArrayPartitioner().partition(b"hello", 4) == 1
    assert [DefaultPartitioner().partition(key, 10) for key in (17, -17, True, 2**40)] == [7, 7, 1, 6]


def test_the_smallest_number_has_no_absolute_value_in_32_bits() -> None:
    assert (safe_abs(INT_MIN), safe_abs(INT_MIN + 1), safe_abs(-1)) == (0, 2**31 - 1, 1)


def test_a_key_of_none_goes_to_any_partition() -> None:
    assert {DefaultPartitioner().partition(None, 3) for _ in range(200)} == {0, 1, 2}


def test_a_key_that_java_cannot_hash_is_named() -> None:
    with pytest.raises(TypeError, match=r"DefaultPartitioner takes a key of .* not list"):
        DefaultPartitioner().partition(["a"], 3)
    with pytest.raises(TypeError, match=r"ByteArrayPartitioner takes a key of bytes, not of type str"):
        ByteArrayPartitioner().partition("a", 3)


@pytest.mark.java
def test_row_39_the_partitions_are_those_of_scalas_partitioners() -> None:
    rolls = dice()
    texts = ["polygenelubricants", "hello", "", "é", "\U0001f600"]
    texts += [
        "".join(chr(rolls.randrange(1, 0xD7FF)) for _ in range(rolls.randrange(12))) for _ in range(300)
    ]
    questions, ours = [], []
    for text in texts:
        count, data = rolls.randrange(1, 50), text.encode()
        for kind, partition in (
            ("default", DefaultPartitioner().partition(text, count)),
            ("bytes", ByteArrayPartitioner().partition(data, count)),
        ):
            questions.append(f"partition\t{kind}\t{data.hex()}\t{count}")
            ours.append(str(partition))
    with Oracle("0.8.2.2", "EventHandlerOracle.java") as oracle:
        assert oracle.ask(questions) == ours

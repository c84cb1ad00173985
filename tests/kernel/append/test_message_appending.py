"""Copies of messages become the same records as calls of ``send``, in both kernels."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import KafkaError
from pyklient.kernel.append.arrow_columns import AT_ONCE
from tests.kernel.append.mill import PARTITIONS, Mill, Row
from tests.kernel.kernels import KERNELS

small = st.none() | st.binary(max_size=8)
some_rows = st.lists(
    st.builds(
        Row,
        small | st.sampled_from([bytes(70), bytes(300)]),
        small,
        st.sampled_from([0, 0, 0, 1, 2]),
        st.none() | st.integers(0, 9) | st.integers(0, (1 << 63) - 1),
        st.lists(st.tuples(st.text(max_size=3), small), max_size=3).map(tuple),
    ),
    max_size=40,
)


def message(kernel: Any, row: Row, offset: int, topic: str = "t") -> Any:
    time_ms = -1 if row.time_ms is None else row.time_ms
    return kernel.Message(topic, row.partition, offset, time_ms, 0, row.key, row.value, row.headers)


def plain(kernel: Any, value: Any, offset: int = 0, *, topic: str = "t", key: Any = None) -> Any:
    return kernel.Message(topic, 0, offset, 5, 0, key, value)


def copy_all(mill: Mill, messages: list[Any], keep_partition: bool) -> tuple[Any, list[Any]]:
    """Append *messages* to the batches of *mill*. Return the place of each copy, in the order of *messages*,
    with the state of *mill*, and the results of the calls."""
    places: list[tuple[int, int]] = []
    calls: list[Any] = []
    try:
        while len(places) < len(messages):
            done = len(places)
            taken, runs, targets = mill.kernel.append_messages(mill.appender, messages, done, keep_partition)
            calls.append((taken, [(mill.batches.index(batch), *run) for batch, *run in runs], list(targets)))
            if taken:
                places += _places(mill, taken, runs, targets)
                continue
            each = messages[done]
            delivery = mill.appender.send(
                "t",
                each.value,
                each.key,
                each.partition if keep_partition else None,
                None if each.timestamp_ms < 0 else each.timestamp_ms,
                each.headers,
            )
            batch, index = delivery.batch_and_index
            places.append((mill.batches.index(batch), index))
    except KafkaError as error:
        return (sorted(places), str(error), mill.state()), calls
    return (sorted(places), "", mill.state()), calls


def _places(mill: Mill, taken: int, runs: Any, targets: Any) -> list[tuple[int, int]]:
    assert len(targets) == (taken if len(runs) > 1 else 0)
    assert [batch.partition for batch, *_ in runs] == sorted({*targets} or {runs[0][0].partition})
    following = {batch.partition: [mill.batches.index(batch), first] for batch, first, _ in runs}
    places = []
    for target in targets or [runs[0][0].partition] * taken:
        places.append((following[target][0], following[target][1]))
        following[target][1] += 1
    assert all(following[batch.partition][1] == stop for batch, _, stop in runs)
    return places


@settings(deadline=None, max_examples=200)
@given(some_rows, st.booleans(), st.sampled_from([100, 400, 9_000]), st.sampled_from([3_000, 1 << 30]))
def test_copies_become_the_bytes_and_the_batches_that_single_sends_make(
    rows: list[Row], keep_partition: bool, batch_size: int, memory: int
) -> None:
    alike = rows if keep_partition else [row._replace(partition=None) for row in rows]
    seen = []
    for kernel in KERNELS:
        expected = Mill(kernel, batch_size, memory).send_row_by_row(alike)
        messages = [message(kernel, row, offset) for offset, row in enumerate(rows)]
        found, calls = copy_all(Mill(kernel, batch_size, memory), messages, keep_partition)
        assert found == expected
        seen.append(calls)
    assert seen[0] == seen[1]


class TestEach:
    @pytest.fixture
    def mill(self, kernel: Any) -> Mill:
        """A mill with an open batch in each partition."""
        mill = Mill(kernel, 1 << 24, 1 << 30)
        for number in range(PARTITIONS):
            mill.appender.send("t", b"first", None, number)
        return mill

    def test_copies_of_several_partitions_tell_where_each_is(self, kernel: Any, mill: Mill) -> None:
        keys = [b"key %d" % number for number in range(30)]
        messages = [plain(kernel, b"v", number, key=key) for number, key in enumerate(keys)]
        taken, runs, targets = kernel.append_messages(mill.appender, messages, 10, False)
        assert (taken, list(targets)) == (20, [kernel.murmur2(key) % PARTITIONS for key in keys[10:]])
        assert runs == [
            (batch, 1, 1 + list(targets).count(number)) for number, batch in enumerate(mill.batches)
        ]

    @pytest.mark.parametrize(
        "other",
        [
            lambda kernel: plain(kernel, b"v", topic="u"),
            lambda kernel: kernel.Message("t", 1, 2, 5, 0, None, b"v"),
            lambda kernel: plain(kernel, "text"),
            lambda kernel: plain(kernel, b"v", key=7),
            lambda kernel: kernel.Message("t", 0, 2, 5, 0, None, b"v", (("n", "text"),)),
            lambda kernel: kernel.Message("t", 0, 2, 5, 0, None, b"v", (("\ud800", b""),)),
            lambda kernel: kernel.Message("t", 0, 2, 5, 0, None, b"v", None),
        ],
        ids=["topic", "partition", "value", "key", "header", "name", "no headers"],
    )
    def test_a_call_ends_before_a_message_that_does_not_continue_the_others(
        self, kernel: Any, mill: Mill, other: Any
    ) -> None:
        messages = [plain(kernel, b"v", 0), plain(kernel, b"v", 1), other(kernel), plain(kernel, b"v", 3)]
        assert kernel.append_messages(mill.appender, messages, 0, True)[0] == 2
        assert mill.batches[0].count == 3

    def test_a_call_ends_after_a_mebibyte_so_that_other_threads_have_their_turn(
        self, kernel: Any, mill: Mill
    ) -> None:
        messages = [plain(kernel, bytes(100_000), offset) for offset in range(30)]
        assert kernel.append_messages(mill.appender, messages, 0, True)[0] == AT_ONCE // 100_000 + 1

    def test_a_closed_appender_an_unknown_topic_and_a_start_out_of_range_take_nothing(
        self, kernel: Any, mill: Mill
    ) -> None:
        messages = [plain(kernel, b"v")]
        for start in (-1, 1, 2):
            assert kernel.append_messages(mill.appender, messages, start, True)[0] == 0
        assert kernel.append_messages(mill.appender, [plain(kernel, b"v", topic="u")], 0, True)[0] == 0
        beyond = kernel.Message("t", PARTITIONS, 0, 5, 0, None, b"v")
        assert kernel.append_messages(mill.appender, [beyond], 0, True)[0] == 0
        assert kernel.append_messages(mill.appender, messages, 0, True)[0] == 1
        mill.appender.shut()
        taken, runs, targets = kernel.append_messages(mill.appender, messages, 0, True)
        assert (taken, runs, list(targets)) == (0, [], [])

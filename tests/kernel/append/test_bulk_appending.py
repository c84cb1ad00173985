"""Records that are appended as lists become the same as with calls of ``send``, in both kernels."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import KafkaError
from pyklient.kernel.append.arrow_columns import AT_ONCE
from tests.kernel.append.mill import PARTITIONS, Mill, Row
from tests.kernel.appending import Bench, records_of
from tests.kernel.kernels import KERNELS

small = st.none() | st.binary(max_size=8)
some_rows = st.lists(
    st.builds(
        Row,
        small | st.sampled_from([bytes(70), bytes(300)]),
        small,
        st.sampled_from([None, None, 0, 1, 2]),
        st.none() | st.integers(0, 9) | st.integers(0, (1 << 63) - 1),
        st.none() | st.lists(st.tuples(st.text(max_size=3), small), max_size=3).map(tuple),
    ),
    max_size=40,
)


def append_all(mill: Mill, rows: list[Row]) -> tuple[Any, list[Any]]:
    """Append *rows* to the batches of *mill*. Return the places of the records with the state of *mill*, and
    the results of the calls."""
    places: list[tuple[int, int]] = []
    calls: list[Any] = []
    lists = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in Row._fields]
    values, keys, partitions, times, headers = lists
    try:
        while len(places) < len(rows):
            done = len(places)
            taken, runs = mill.kernel.append_many(
                mill.appender, "t", done, values, keys, headers, times, partitions
            )
            if not taken:
                row = rows[done]
                delivery = mill.appender.send(
                    "t", row.value, row.key, row.partition, row.time_ms, row.headers
                )
                batch, index = delivery.batch_and_index
                taken, runs = 1, [(batch, index, index + 1)]
            calls.append((taken, [(mill.batches.index(batch), *run) for batch, *run in runs]))
            places += [(mill.batches.index(batch), at) for batch, *run in runs for at in range(*run)]
    except KafkaError as error:
        return (sorted(places), str(error), mill.state()), calls
    return (sorted(places), "", mill.state()), calls


@settings(deadline=None, max_examples=200)
@given(some_rows, st.sampled_from([100, 400, 9_000]), st.sampled_from([3_000, 1 << 30]))
def test_lists_become_the_bytes_and_the_batches_that_single_sends_make(
    rows: list[Row], batch_size: int, memory: int
) -> None:
    seen = []
    for kernel in KERNELS:
        expected = Mill(kernel, batch_size, memory).send_row_by_row(rows)
        found, calls = append_all(Mill(kernel, batch_size, memory), rows)
        assert found == expected
        seen.append(calls)
    assert seen[0] == seen[1]


def test_values_are_taken_until_one_does_not_fit(kernel: Any) -> None:
    bench = Bench(kernel, batch_size=150)
    batch = bench.open()
    values: list[Any] = [b"%025d" % number for number in range(10)]
    assert kernel.append_many(bench.appender, "clicks", 2, values) == (4, [(batch, 0, 4)])
    assert [value for _, _, value, _ in records_of(batch)] == values[2:6]
    assert kernel.append_many(bench.appender, "clicks", 6, values) == (0, [])
    other = bench.open()
    values[7] = "text"
    assert kernel.append_many(bench.appender, "clicks", 6, values, partitions=0) == (1, [(other, 0, 1)])


def test_keys_and_numbers_choose_the_partitions(kernel: Any) -> None:
    bench = Bench(kernel)
    bench.open(partitions=3)
    batches = [bench.appender.current_batch("clicks", number) for number in range(3)]
    keys = [b"key %d" % number for number in range(30)]
    taken, runs = kernel.append_many(bench.appender, "clicks", 0, [b"v"] * 30, keys)
    numbers = [kernel.murmur2(key) % 3 for key in keys]
    assert (taken, runs) == (30, [(batch, 0, numbers.count(at)) for at, batch in enumerate(batches)])
    before = [batch.count for batch in batches]
    taken, runs = kernel.append_many(bench.appender, "clicks", 0, [b"v"] * 3, keys[:3], partitions=[2, 0, 2])
    assert (taken, runs) == (
        3,
        [(batches[0], before[0], before[0] + 1), (batches[2], before[2], before[2] + 2)],
    )


@pytest.mark.parametrize(
    ("values", "lists"),
    [
        pytest.param([b"a", b"b", "text", b"c"], {}, id="text"),
        pytest.param([b"a", b"b", bytearray(b"x"), b"c"], {}, id="bytearray"),
        pytest.param([b"a"] * 4, {"keys": [b"k", None, 5, b"k"]}, id="number as key"),
        pytest.param([b"a"] * 4, {"keys": [b"k", None]}, id="too few keys"),
        pytest.param([b"a"] * 4, {"headers": [[], None, 5, None]}, id="headers that are none"),
        pytest.param([b"a"] * 4, {"headers": [[], None, [("a", "b")], None]}, id="text in a header"),
        pytest.param(
            [b"a"] * 4, {"headers": [[], None, [("\ud800", b"")], None]}, id="a name that is no text"
        ),
        pytest.param([b"a"] * 4, {"timestamps_ms": [0, None, -1, 0]}, id="negative time"),
        pytest.param([b"a"] * 4, {"timestamps_ms": [0, None, 1 << 63, 0]}, id="large time"),
        pytest.param([b"a"] * 4, {"timestamps_ms": [0, None, True, 0]}, id="truth as time"),
        pytest.param([b"a"] * 4, {"partitions": [0, None, 1, 0]}, id="no such partition"),
        pytest.param([b"a"] * 4, {"partitions": [0, None, -1, 0]}, id="negative partition"),
        pytest.param([b"a"] * 4, {"partitions": [0, None, 1 << 70, 0]}, id="large partition"),
        pytest.param([b"a"] * 4, {"partitions": [0, None, False, 0]}, id="truth as partition"),
    ],
)
def test_a_call_ends_before_a_record_that_send_would_decline(
    kernel: Any, values: list[Any], lists: dict[str, list[Any]]
) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    assert kernel.append_many(bench.appender, "clicks", 0, values, **lists) == (2, [(batch, 0, 2)])
    used = bench.appender.used_memory
    assert kernel.append_many(bench.appender, "clicks", 2, values, **lists) == (0, [])
    assert (batch.count, bench.appender.used_memory) == (2, used)


def test_a_call_ends_after_a_mebibyte_so_that_other_threads_have_their_turn(kernel: Any) -> None:
    bench = Bench(kernel, batch_size=1 << 24)
    bench.open()
    taken, _ = kernel.append_many(bench.appender, "clicks", 0, [bytes(100_000)] * 30)
    assert taken == AT_ONCE // 100_000 + 1


def test_a_closed_appender_an_unknown_topic_and_a_start_out_of_range_take_nothing(kernel: Any) -> None:
    bench = Bench(kernel)
    bench.open()
    for topic, start in (("other", 0), ("clicks", -1), ("clicks", 1), ("clicks", 2)):
        assert kernel.append_many(bench.appender, topic, start, [b"v"]) == (0, [])
    assert kernel.append_many(bench.appender, "clicks", 0, [b"v"], partitions=1) == (0, [])
    assert kernel.append_many(bench.appender, "clicks", 0, [b"v"])[0] == 1
    bench.appender.shut()
    assert kernel.append_many(bench.appender, "clicks", 0, [b"v"]) == (0, [])


def test_all_partitions_are_in_use(kernel: Any) -> None:
    mill = Mill(kernel, 400, 1 << 30)
    rows = [Row(b"v", b"%d" % number, None, None, None) for number in range(200)]
    append_all(mill, rows)
    assert {batch.partition for batch in mill.batches} == set(range(PARTITIONS))

"""Rows of columns become the same records as calls of ``send``, in both kernels."""

import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.kernel.append.arrow_columns import AT_ONCE, Cells, HeaderLists, Numbers
from tests.kernel.append.mill import PARTITIONS, Mill, Row, Tracker
from tests.kernel.arrow_rows import PLAIN, Shape, cells, header_lists, numbers
from tests.kernel.kernels import COMPILED, KERNELS, PYTHON, outcome_of
from tests.run.seed import dice

INT64: Final = (1 << 63) - 1


class Layout(NamedTuple):
    """The columns of a test, and their layout in memory."""

    shapes: tuple[Shape, Shape, Shape, Shape, Shape, Shape] = (PLAIN,) * 6
    has_key: bool = True
    partition: int | None = None
    """The partition of all rows, in place of the column."""
    base: int = 0


def columns_of(rows: Sequence[Row], layout: Layout) -> tuple[Any, ...]:
    value, key, partition, timestamp, headers, inner = layout.shapes
    return (
        cells([row.value for row in rows], value),
        cells([row.key for row in rows], key) if layout.has_key else None,
        numbers([row.partition for row in rows], partition) if layout.partition is None else layout.partition,
        numbers([row.time_ms for row in rows], timestamp),
        header_lists([row.headers for row in rows], headers, layout.base, inner),
    )


small = st.none() | st.binary(max_size=8)
headers = st.none() | st.lists(st.tuples(st.text(max_size=3), small), max_size=3).map(tuple)
some_rows = st.lists(
    st.builds(
        Row,
        small | st.sampled_from([bytes(70), bytes(300)]),
        small,
        st.none() | st.integers(0, PARTITIONS - 1),
        st.none() | st.integers(0, 9) | st.integers(0, INT64),
        headers,
    ),
    max_size=40,
)
shapes = st.builds(Shape, st.integers(0, 17), st.booleans(), st.sampled_from([b"", b"junk"]), st.booleans())
layouts = st.builds(
    Layout,
    st.tuples(*[shapes] * 6),
    st.booleans(),
    st.none() | st.integers(0, PARTITIONS - 1),
    st.sampled_from([0, 5]),
)
bad = st.sampled_from([-1, PARTITIONS, 1 << 40, -INT64 - 1])


@settings(deadline=None, max_examples=200)
@given(some_rows, layouts, st.sampled_from([100, 400, 9_000]), st.sampled_from([3_000, 1 << 30]))
def test_columns_become_the_bytes_and_the_batches_that_single_sends_make(
    rows: list[Row], layout: Layout, batch_size: int, memory: int
) -> None:
    _compare(rows, layout, batch_size, memory)


@settings(deadline=None, max_examples=50)
@given(some_rows.filter(bool), layouts, st.data())
def test_a_row_that_cannot_be_sent_stops_there_and_not_before(
    rows: list[Row], layout: Layout, data: st.DataObject
) -> None:
    at = data.draw(st.integers(0, len(rows) - 1))
    wrong = data.draw(bad)
    if data.draw(st.booleans()):
        rows[at] = rows[at]._replace(partition=wrong)
    else:
        rows[at] = rows[at]._replace(time_ms=wrong)
    _compare(rows, layout, 400, 1 << 30)


def _compare(rows: list[Row], layout: Layout, batch_size: int, memory: int) -> None:
    """Check that both kernels give the same result, row by row and in columns."""
    columns = columns_of(rows, layout)
    alike = [
        row._replace(
            key=row.key if layout.has_key else None,
            partition=row.partition if layout.partition is None else layout.partition,
            headers=row.headers or (),
        )
        for row in rows
    ]
    calls: list[list[Any]] = [[], []]
    for kernel, called in zip(KERNELS, calls, strict=True):
        given_rows = kernel.ArrowRows(*columns)
        assert [Row(*given_rows.row(index)) for index in range(given_rows.count)] == alike
        expected = Mill(kernel, batch_size, memory).send_row_by_row(alike)
        assert Mill(kernel, batch_size, memory).send_columns(given_rows, called) == expected
    assert calls[0] == calls[1]


class TestEach:
    def test_only_values_are_needed(self, kernel: Any) -> None:
        rows = kernel.ArrowRows(cells([b"v", None]))
        assert rows.count == 2
        assert [rows.row(index) for index in range(2)] == [
            (b"v", None, None, None, ()),
            (None, None, None, None, ()),
        ]
        for index in (-1, 2):
            with pytest.raises(IndexError):
                rows.row(index)

    def test_no_rows_are_none(self, kernel: Any) -> None:
        nothing = Cells(0, 3, b"\xff", b"", b"")
        rows = kernel.ArrowRows(nothing, nothing, Numbers(0, 0, None, b""))
        assert Mill(kernel, 100, 1 << 30).send_columns(rows, []) == ([], "", (0, []))

    def test_a_call_ends_after_a_mebibyte_so_that_other_threads_have_their_turn(self, kernel: Any) -> None:
        rows = kernel.ArrowRows(cells([bytes(100_000)] * 30))
        mill = Mill(kernel, 1 << 24, 1 << 30)
        calls: list[Any] = []
        mill.send_columns(rows, calls)
        assert [taken for taken, _ in calls] == [1, AT_ONCE // 100_000 + 1, AT_ONCE // 100_000 + 1, 7]

    def test_a_closed_appender_an_unknown_topic_and_a_start_out_of_range_take_nothing(
        self, kernel: Any
    ) -> None:
        mill = Mill(kernel, 1_000, 1 << 30)
        mill.appender.send("t", b"v", None, 0)
        rows = kernel.ArrowRows(cells([b"v"]), None, 0)
        for start in (-1, 1, 2, INT64):
            assert kernel.append_rows(mill.appender, "t", rows, start) == (0, [])
        assert kernel.append_rows(mill.appender, "u", rows, 0) == (0, [])
        taken, runs = kernel.append_rows(mill.appender, "t", rows, 0)
        assert (taken, runs) == (1, [(mill.batches[0], 1, 2)])
        mill.appender.shut()
        assert kernel.append_rows(mill.appender, "t", rows, 0) == (0, [])

    def test_more_partitions_are_noticed_between_two_calls(self, kernel: Any) -> None:
        keys = [b"key %d" % number for number in range(50)]
        mill = Mill(kernel, 100_000, 1 << 30)
        rows = kernel.ArrowRows(cells([b"v"] * 50), cells(keys))
        for count in (2, 5):
            mill.appender.set_partitions("t", count)
            opened = [mill.appender.begin_batch("t", number, 0.0) for number in range(count)]
            assert kernel.append_rows(mill.appender, "t", rows, 0)[0] == 50
            hashes = [kernel.murmur2(key) % count for key in keys]
            assert [batch.count for batch in opened] == [hashes.count(number) for number in range(count)]

    def test_a_clock_that_raises_is_heard_and_nothing_is_appended(self, kernel: Any) -> None:
        def broken() -> int:
            raise RuntimeError("the clock is broken")

        appender = kernel.Appender(print, Tracker(), broken, batch_size=100, memory_limit=9999)
        appender.set_partitions("t", 1)
        batch = appender.begin_batch("t", 0, 0.0)
        with pytest.raises(RuntimeError, match="the clock is broken"):
            kernel.append_rows(appender, "t", kernel.ArrowRows(cells([b"v"])), 0)
        assert batch.count == 0

    def test_threads_that_append_at_once_lose_nothing(self, kernel: Any) -> None:
        appender = kernel.Appender(print, Tracker(), lambda: 0, batch_size=1 << 24, memory_limit=1 << 30)
        appender.set_partitions("t", 2)
        batches = [appender.begin_batch("t", number, 0.0) for number in range(2)]

        def send(number: int) -> None:
            values = [b"%d:%d" % (number, index) for index in range(2000)]
            rows = kernel.ArrowRows(
                cells(values), cells([b"k" if index % 2 else None for index in range(2000)])
            )
            for start in range(0, 2000, 100):
                part = kernel.ArrowRows(cells(values[start : start + 100]))
                assert kernel.append_rows(appender, "t", part, 0)[0] == 100
            assert kernel.append_rows(appender, "t", rows, 0)[0] == 2000

        threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        values = []
        for batch in batches:
            values += kernel.parse_records(batch.payload(), batch.count, 0, batch.count - 1, 0).values
        assert len(values) == 2 * len(set(values)) == 16_000
        assert appender.used_memory == sum(batch.charged for batch in batches)


NAMES: Final = cells([b"a", b"b"])
WRONG: Final[dict[str, tuple[tuple[Any, ...], str]]] = {
    "too few offsets": (
        (cells([b"a", b"b"])._replace(length=3),),
        "12 bytes of offsets, but needs at least 16",
    ),
    "too little validity": (
        (cells([None] * 9)._replace(validity=b"\x00"),),
        "1 bytes of validity, but needs at least 2",
    ),
    "negative": ((cells([b"a"])._replace(first=-1),), "the length 1 and the offset -1"),
    "beyond the data": ((cells([b"abc"])._replace(data=b"ab"),), "do not increase from 0 to 2"),
    "falling": (
        (cells([b"a", b"b"])._replace(offsets=bytes.fromhex("000000000200000001000000")),),
        "increase",
    ),
    "below zero": ((cells([b"a"])._replace(offsets=b"\xff" * 4 + bytes(4)),), "increase"),
    "unequal": ((cells([b"a"]), cells([])), "column key has 0 rows, but column value has 1"),
    "too few numbers": (
        (cells([b"a"]), None, numbers([3])._replace(data=b"1234567")),
        "7 bytes of data, but needs at least 8",
    ),
    "nameless": (
        (cells([b"a"]), None, None, None, header_lists([(("n", b""),)])._replace(names=cells([None]))),
        "column headers has a header whose name is null",
    ),
    "no text": (
        (cells([b"a"]), None, None, None, header_lists([(("n", b""),)])._replace(names=cells([b"\xff"]))),
        "codec can't decode",
    ),
    "names without values": (
        (cells([b"a"]), None, None, None, HeaderLists(1, 0, None, bytes(8), NAMES, cells([]))),
        "the column 'headers' has 2 header keys, but 0 header values",
    ),
    "beyond the headers": (
        (
            cells([b"a"]),
            None,
            None,
            None,
            header_lists([(("n", b""),)])._replace(names=cells([]), values=cells([])),
        ),
        "the offsets of column headers do not increase from 0 to 0",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_buffers_that_are_not_what_arrow_says_are_refused(case: str, kernel: Any) -> None:
    columns, message = WRONG[case]
    with pytest.raises(ValueError, match=message):
        kernel.ArrowRows(*columns)


def test_random_buffers_are_refused_alike_or_read_alike() -> None:
    chance = dice("buffers")

    def column() -> Cells:
        length = chance.randrange(4)
        offsets = b"".join(
            chance.randrange(-1, 6).to_bytes(4, "little", signed=True) for _ in range(length + 1)
        )
        validity = chance.choice([None, chance.randbytes(1)])
        return Cells(
            length, chance.choice([0, 0, 1]), validity, offsets, chance.choice([b"", b"bytes", b"\xff"])
        )

    def rows(kernel: Any, *columns: Any) -> Any:
        made = kernel.ArrowRows(*columns)
        return [made.row(index) for index in range(made.count)]

    read = 0
    for _ in range(3_000):
        value, key, names, values = (column() for _ in range(4))
        lists = HeaderLists(value.length, value.first, value.validity, value.offsets, names, values)
        columns = value, chance.choice([None, key]), 0, None, chance.choice([None, lists])
        found = outcome_of(rows, PYTHON, *columns)
        assert outcome_of(rows, COMPILED, *columns) == found
        read += isinstance(found, list)
    assert read > 100

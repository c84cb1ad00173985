"""Answers with many small batches: the compiled kernel reads them in one call, exactly as the Python kernel
reads them one by one."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import CorruptRecordError
from pyklient.kernel import encode_batch
from pyklient.kernel.decode import message_decoding
from pyklient.protocol.records import AbortedTransactions, Compression, NewRecord, compress
from pyklient.protocol.records.compression import Decompressor
from tests.kernel.kernels import COMPILED, KERNELS, PYTHON
from tests.kernel.samples import new_records
from tests.steps import steps_of

FIELDS = ("topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers")

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "stamped": {"timestamp_type": 1},
    "idempotent": {"producer_id": 3, "producer_epoch": 0, "base_sequence": 4},
    "newer epoch": {"partition_leader_epoch": 9},
    "transactional": {"producer_id": 5, "producer_epoch": 0, "transactional": True},
    "committed": {"producer_id": 5, "producer_epoch": 0, "transactional": True},
    "committed with lz4": {"producer_id": 5, "transactional": True, "compression": Compression.LZ4},
    "ended without a type": {"producer_id": 5, "producer_epoch": 0, "transactional": True},
    "compressed": {"compression": Compression.GZIP},
    "compressed with zstd": {"compression": Compression.ZSTD},
    "compressed and stamped": {"compression": Compression.LZ4, "timestamp_type": 1},
    "compressed and damaged": {"compression": Compression.SNAPPY, "damage": (-2, 0x40)},
    "unknown codec": {"compression": Compression.NONE, "damage": (22, 7)},
    "damaged": {"damage": (-1, 0x40)},
    "format 1": {"magic": 1},
}

MARKERS = {
    "committed": b"\0\0\0\1",
    "committed with lz4": b"\0\0\0\1",
    "ended without a type": b"\0\0\0",
}
"""The keys of the markers that follow batches of these kinds."""


def small_batches(number: int, records: int = 1, **facts: Any) -> bytes:
    """Return *number* batches of *records* records each."""
    rows = [NewRecord(1000, None, b"value")] * records
    return b"".join(encode_batch(rows, base_offset=index * records, **facts) for index in range(number))


def read_messages(data: bytes, **options: Any) -> int:
    position = total = 0
    while (chunk := COMPILED.decode(data, "t", 0, total, position=position, **options)).nbytes:
        total += len(list(chunk))
        position += chunk.nbytes
    return total


def read_columns(data: bytes, **options: Any) -> int:
    chunk = COMPILED.decode_columns(data, "t", 0, 0, **options)
    assert chunk.nbytes == len(data)
    return int(chunk.remaining)


def read_decoded(data: bytes) -> int:
    position = total = 0
    while (chunk := COMPILED.decode(data, "t", 0, total, position=position, value_decoder=len)).nbytes:
        total += len(list(chunk))
        position += chunk.nbytes
    return total


@pytest.mark.parametrize("read", [read_messages, read_columns])
def test_a_hundred_times_as_many_batches_are_read_in_as_many_steps(read: Callable[[bytes], int]) -> None:
    for records in (1, 18):
        few, many = small_batches(5, records), small_batches(500, records)
        assert read(many) == 500 * records
        assert steps_of(partial(read, few)) == steps_of(partial(read, many))


@pytest.mark.parametrize("read", [read_messages, read_columns])
def test_compressed_batches_take_the_steps_of_their_decompression(read: Callable[[bytes], int]) -> None:
    decompressor = Decompressor(1 << 20)
    for codec in list(Compression)[1:]:
        few, many = (small_batches(number, compression=codec) for number in (5, 500))
        records = compress(codec, encode_batch([NewRecord(1000, None, b"value")])[61:])
        decompressor(codec, records)
        each = steps_of(partial(decompressor, codec, records))
        grown = steps_of(partial(read, many)) - steps_of(partial(read, few))
        assert grown <= 495 * (each + 30), codec


@pytest.mark.parametrize("read", [read_messages, read_columns])
def test_a_hundred_times_as_many_batches_of_committed_transactions_are_read_in_as_many_steps(
    read: Callable[..., int],
) -> None:
    facts = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    few, many = small_batches(5, **facts), small_batches(500, **facts)
    steps = []
    for data in (few, many):
        later = AbortedTransactions([(5, 1_000)])
        assert read(data, aborted=later) == len(data) // (len(few) // 5)
        steps.append(steps_of(partial(read, data, aborted=later)))
    assert steps[0] == steps[1]


def test_decoders_get_the_records_of_many_batches_in_as_many_steps_as_those_of_a_few() -> None:
    few, many = small_batches(5, 2), small_batches(450, 2)
    assert read_decoded(many) == 900
    assert steps_of(partial(read_decoded, few)) == steps_of(partial(read_decoded, many))


def test_the_end_of_the_last_whole_batch_is_found_in_one_step() -> None:
    few, many = small_batches(5), small_batches(500)
    found = COMPILED.whole_batches(memoryview(many)[:-1])
    assert found == [(0, len(many) // 500 * 499, 499, -1)]
    steps = [steps_of(partial(COMPILED.whole_batches, memoryview(data))) for data in (few, many)]
    assert steps[0] == steps[1]


def answer(batches: list[tuple[str, list[NewRecord], int]]) -> bytes:
    """Return batches, each with its kind, its records, and the gap in the offsets before it."""
    data, offset = b"", 0
    for kind, records, gap in batches:
        offset += gap
        options = dict(KINDS[kind])
        damage = options.pop("damage", None)
        if options.get("magic") == 1:
            records = [record._replace(headers=()) for record in records]
            options["compression"] = Compression.GZIP if len(records) > 1 else Compression.NONE
        encoded = bytearray(encode_batch(records, base_offset=offset, **options))
        if damage is not None:
            encoded[damage[0]] ^= damage[1]
        data += encoded
        offset += len(records)
        if kind in MARKERS or (kind == "transactional" and len(records) % 2):
            marker = [NewRecord(7, MARKERS.get(kind, b"\0\0\0\0"), b"\0\0\0\0\0\0")]
            data += encode_batch(marker, base_offset=offset, producer_id=5, transactional=True, control=True)
            offset += 1
    return data


some_records = st.lists(new_records, min_size=1, max_size=4)
some_kinds = st.sampled_from(["plain"] * 6 + list(KINDS))
answers = st.lists(st.tuples(some_kinds, some_records, st.sampled_from([0, 0, 0, 5])), max_size=9).map(answer)


def told(error: Exception) -> tuple[Any, ...]:
    return type(error), str(error), getattr(error, "__notes__", [])


def messages_of(
    kernel: Any, data: bytes, start: int, aborted: Any, check_crcs: bool, **decoders: Any
) -> list[Any]:
    """Return what the chunks of *data* contain, and the error that ends them."""
    seen: list[Any] = []
    position = 0
    transactions = None if aborted is None else AbortedTransactions(aborted)
    while True:
        try:
            chunk = kernel.decode(
                data,
                "t",
                1,
                start,
                position=position,
                aborted=transactions,
                check_crcs=check_crcs,
                **decoders,
            )
        except Exception as error:
            return [*seen, told(error)]
        rows = [tuple(getattr(message, name) for name in FIELDS) for message in chunk]
        seen.append((rows, chunk.nbytes, chunk.next_offset))
        if not chunk.nbytes and not rows:
            return seen
        position += chunk.nbytes
        start = chunk.next_offset


def columns_of(kernel: Any, data: bytes, start: int, aborted: Any, **options: Any) -> list[Any]:
    seen: list[Any] = []
    position = 0
    transactions = None if aborted is None else AbortedTransactions(aborted)
    while True:
        try:
            chunk = kernel.decode_columns(
                data, "t", 1, start, position=position, aborted=transactions, **options
            )
        except Exception as error:
            return [*seen, told(error)]
        columns = chunk.left().columns
        flat = [*columns[:3], *columns.keys, *columns.values, columns.headers[0]]
        flat += [*columns.headers.names, *columns.headers.values]
        seen.append(
            ([None if each is None else bytes(each) for each in flat], chunk.nbytes, chunk.next_offset)
        )
        if not chunk.nbytes:
            return seen
        position += chunk.nbytes
        start = chunk.next_offset


@settings(deadline=None, max_examples=150)
@given(
    answers,
    st.integers(0, 12),
    st.none() | st.lists(st.tuples(st.integers(4, 5), st.integers(0, 20)), max_size=3),
    st.booleans(),
    st.sampled_from([1, 3, 10_000]),
)
def test_both_kernels_find_the_same_in_answers_of_many_kinds(
    data: bytes, start: int, aborted: Any, check_crcs: bool, enough: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message_decoding, "_ENOUGH_MESSAGES", enough)  # of the compiled kernel
        patch.setattr(message_decoding, "_ENOUGH_AT_ONCE", enough)  # of the Python kernel
        python, compiled = (messages_of(kernel, data, start, aborted, check_crcs) for kernel in KERNELS)
    assert python == compiled
    for most in (80, 1 << 20):
        options = {"check_crcs": check_crcs, "enough": enough, "most_bytes": most}
        python, compiled = (columns_of(kernel, data, start, aborted, **options) for kernel in KERNELS)
        assert python == compiled


@settings(deadline=None, max_examples=150)
@given(answers, st.data())
def test_both_kernels_find_the_same_in_changed_bytes(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    for _ in range(draw.draw(st.integers(1, 3)) if changed else 0):
        at = draw.draw(st.integers(0, len(changed) - 1))
        changed[at] = draw.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    del changed[draw.draw(st.integers(0, len(changed))) :]
    for check_crcs in (True, False):
        python, compiled = (messages_of(kernel, bytes(changed), 0, None, check_crcs) for kernel in KERNELS)
        assert python == compiled
        python, compiled = (
            columns_of(kernel, bytes(changed), 0, None, check_crcs=check_crcs) for kernel in KERNELS
        )
        assert python == compiled
    results = []
    for kernel in KERNELS:
        try:
            results.append(kernel.whole_batches(memoryview(changed)))
        except CorruptRecordError as error:
            results.append(told(error))
    assert results[0] == results[1]


@settings(deadline=None)
@given(answers, st.lists(st.integers(0, 3), max_size=12), st.booleans())
def test_a_chunk_of_many_batches_knows_how_far_it_was_read(
    data: bytes, reads: list[int], stops: bool
) -> None:
    told_by: list[list[Any]] = []
    for kernel in KERNELS:
        facts: list[Any] = []
        try:
            chunk = kernel.decode(data, "t", 1, 0)
        except CorruptRecordError:
            chunk = kernel.decode(b"", "t", 1, 0)
        for limit in reads:
            got = [message.offset for message in chunk.hand_out(limit)]
            left = [message.offset for message in chunk.left()]
            facts.append((got, left, chunk.handed, chunk.remaining, chunk.position, chunk.last_handed))
        if stops:
            chunk.stop()
        facts.append((chunk.handed, chunk.remaining, chunk.position, chunk.last_handed))
        facts.append([message.offset for message in chunk])
        told_by.append(facts)
    assert told_by[0] == told_by[1]


def decode_small(value: bytes | None) -> str:
    """Decode *value*, unless it is longer than most."""
    if value is not None and len(value) > 60:
        raise ValueError(f"{len(value)} bytes")
    return repr(value)


@settings(deadline=None, max_examples=150)
@given(answers, st.integers(0, 12), st.sampled_from([1, 3, 1_000]), st.none() | st.just([(5, 3)]))
def test_both_kernels_decode_the_same_in_answers_of_many_kinds(
    data: bytes, start: int, enough: int, aborted: Any
) -> None:
    message_decoding._ENOUGH_AT_ONCE, before = enough, message_decoding._ENOUGH_AT_ONCE  # type: ignore[misc]
    try:
        for decoders in (
            {"value_decoder": decode_small},
            {"key_decoder": decode_small, "value_decoder": repr},
        ):
            python, compiled = (
                messages_of(kernel, data, start, aborted, True, **decoders) for kernel in KERNELS
            )
            assert python == compiled
    finally:
        message_decoding._ENOUGH_AT_ONCE = before  # type: ignore[misc]


def test_a_damaged_batch_ends_the_chunk_and_is_named_by_the_next() -> None:
    data = bytearray(small_batches(20))
    size = len(data) // 20
    data[12 * size - 1] ^= 1
    for kernel in (PYTHON, COMPILED):
        chunk = kernel.decode(data, "t", 0, 0)
        assert [message.offset for message in chunk] == list(range(11))
        assert (chunk.nbytes, chunk.next_offset) == (11 * size, 11)
        with pytest.raises(CorruptRecordError, match="the checksum of the batch at offset 11 does not match"):
            kernel.decode(data, "t", 0, 11, position=11 * size)
        assert [message.offset for message in kernel.decode(data, "t", 0, 12, position=12 * size)] == list(
            range(12, 20)
        )


def test_a_chunk_keeps_its_bytes_until_its_last_message() -> None:
    data = bytearray(small_batches(3))
    chunk = COMPILED.decode(data, "t", 0, 0)
    with pytest.raises(BufferError):
        data.append(0)
    for offset, message in zip(count(), chunk, strict=False):
        assert message.offset == offset
    data.append(0)


def test_bytes_that_change_after_they_were_checked_are_read_safely() -> None:
    for at in range(240):
        for byte in (0, 1, 0x7F, 0xFF):
            data = bytearray(small_batches(4))
            chunk = COMPILED.decode(memoryview(data), "t", 0, 0)
            data[at] = byte
            with suppress(CorruptRecordError):
                assert len(list(chunk)) <= 4

"""Streams whose lease has ended: they hand out nothing until it is extended."""

import math
import threading
from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest

from pyklient.errors import ConsumerTimeout
from tests.consumer.feed import wait_for
from tests.consumer.stream.bench import Bench, batch, values

LARGE = [f"m{number}" for number in range(1500)]
"""So many values that the compiled kernel makes their messages one at a time."""


@pytest.fixture(params=[["a", "b", "c"], LARGE], ids=["list", "iterator"])
def texts(request: pytest.FixtureRequest) -> list[str]:
    found: list[str] = request.param
    return found


def wait_in_vain(loop: Iterator[Any]) -> None:
    with pytest.raises(ConsumerTimeout):
        next(loop)


@pytest.mark.both_kernels
def test_a_loop_stops_within_a_chunk_and_continues_with_the_next_message(texts: list[str]) -> None:
    bench = Bench()
    bench.put(batch(*texts), then=len(texts))
    loop = iter(bench.stream)
    assert next(loop).offset == 0
    bench.lease.until = 0
    wait_in_vain(loop)
    assert bench.committable(in_hand=False) == {0: 1}, "the loop has asked for the next message"
    bench.lease.until = math.inf
    rest = iter(bench.stream)
    assert [next(rest).offset for _ in texts[1:]] == list(range(1, len(texts)))


@pytest.mark.both_kernels
def test_a_batch_that_was_not_handed_out_before_the_end_of_the_lease_comes_later(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench()
    bench.put(batch(*texts), then=len(texts))
    bench.put(batch("z", base=len(texts)), start=len(texts), then=len(texts) + 1)
    opened = bench.stream._reader._open

    def opened_late(*arguments: Any) -> None:
        opened(*arguments)
        bench.lease.until = 0  # as if the process had been stopped while the batch was decoded

    monkeypatch.setattr(bench.stream._reader, "_open", opened_late)
    loop = bench.stream.batches(10_000, timeout=0.1)
    assert next(loop) == []
    assert bench.committable(in_hand=True).get(0, 0) == 0
    monkeypatch.undo()
    bench.lease.until = math.inf
    assert values(list(chain.from_iterable(next(loop) for _ in range(2)))) == [*texts, "z"]


def test_columns_that_were_not_handed_out_before_the_end_of_the_lease_come_later(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pyarrow")
    bench = Bench()
    bench.put(batch(*texts), then=len(texts))
    opened = bench.stream._reader._open

    def opened_late(*arguments: Any) -> None:
        opened(*arguments)
        bench.lease.until = 0

    monkeypatch.setattr(bench.stream._reader, "_open", opened_late)
    loop = bench.stream.arrow_batches(timeout=0.1)
    assert next(loop).num_rows == 0
    monkeypatch.undo()
    bench.lease.until = math.inf
    assert next(loop).column("offset").to_pylist() == list(range(len(texts)))


def test_a_loop_that_waits_continues_by_itself_when_the_lease_is_extended() -> None:
    bench = Bench(timeout=30)
    bench.put(batch("a", "b"), then=2)
    bench.lease.until = 0
    seen: list[Any] = []
    reader = threading.Thread(target=lambda: seen.append(next(iter(bench.stream))), daemon=True)
    reader.start()
    wait_for(lambda: bench.stream.queue.awaited, "the loop to wait")
    assert seen == []
    bench.lease.until = math.inf
    reader.join(30)
    assert values(seen) == ["a"]


def test_what_is_revoked_while_a_loop_waits_is_not_handed_out_afterwards() -> None:
    bench = Bench()
    bench.put(batch("a", "b"), then=2)
    loop = iter(bench.stream)
    assert next(loop).offset == 0
    bench.lease.until = 0
    wait_in_vain(loop)
    bench.deactivate()
    bench.stream.revoke()
    bench.lease.until = math.inf
    wait_in_vain(iter(bench.stream))


def test_a_loop_that_waits_for_the_lease_is_not_stalled() -> None:
    bench = Bench(timeout=30)
    bench.put(batch("a", "b"), then=2)
    bench.lease.until = 0
    reader = threading.Thread(target=lambda: next(iter(bench.stream)), daemon=True)
    reader.start()
    wait_for(lambda: bench.stream.queue.awaited, "the loop to wait")
    bench.stream.stalled_for(100.0)
    wait_for(lambda: bench.stream.stalled_for(200.0) == 0, "the loop counts as one that asks")
    bench.lease.until = math.inf
    reader.join(30)


def test_a_loop_that_waits_for_the_lease_ends_with_its_stream_and_raises_its_error() -> None:
    bench = Bench(timeout=30)
    bench.put(batch("a"), then=1)
    bench.lease.until = 0
    bench.deactivate()
    bench.stream.revoke()
    bench.stream.queue.fail(ValueError("no more"))
    with pytest.raises(ValueError, match="no more"):
        next(iter(bench.stream))
    other = Bench(timeout=30)
    other.lease.until = 0
    other.stream.end()
    assert list(other.stream) == []

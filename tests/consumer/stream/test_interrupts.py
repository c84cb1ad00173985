"""Ctrl-C between any two steps of a loop, after which another loop continues."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from types import FrameType
from typing import Any

import pytest

from pyklient.consumer import consumed_positions
from pyklient.consumer.fetch import fetch_queue
from pyklient.consumer.fetch.fetch_position import FetchFailure
from pyklient.consumer.stream import (
    active_loop,
    chunk_reader,
    decoding_failures,
    message_in_hand,
    stream_core,
)
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.corrupt_records import CorruptRecords
from pyklient.errors import ConsumerTimeout, KafkaError
from pyklient.kernel.decode import message_decoding
from pyklient.topic_partition import TopicPartition
from tests.consumer.stream.bench import Bench, batch, marker, until_raised, values

pytestmark = pytest.mark.both_kernels

_MODULES = (
    stream_core,
    chunk_reader,
    decoding_failures,
    fetch_queue,
    consumed_positions,
    message_in_hand,
    active_loop,
)
_FILES = tuple(str(module.__file__) for module in _MODULES)


def is_finalizer(frame: FrameType | None) -> bool:
    """Return True if *frame* was called by a ``__del__``, because Python prints and drops exceptions in
    there."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


class Interruption:
    """A trace function that raises KeyboardInterrupt before the *step*-th line that runs in the stream or its
    loop."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, frame: FrameType, event: str, _: Any) -> "Interruption | None":
        if frame.f_code.co_filename not in _FILES:
            return None
        if is_finalizer(frame):
            return None
        self.left -= event == "line"
        if self.left == 0:
            raise KeyboardInterrupt
        return self


class InterruptedCall:
    """A profile function that raises KeyboardInterrupt at the *step*-th moment at which Python checks for
    signals: when it enters a function of its own or returns from a function in C, in the stream, its loop or
    its lock."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        files = (*_FILES, threading.__file__)
        if event in ("call", "c_return") and frame.f_code.co_filename in files and not is_finalizer(frame):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def test_a_loop_interrupted_at_any_step_can_be_gone_on_with_and_nothing_is_lost() -> None:
    for step in count(1):
        bench = Bench(timeout=0)
        bench.put(batch("a", "b"), marker(2, 1), then=3)
        bench.put(marker(0, 1), partition=1, then=1)
        bench.put(batch("c", base=3), start=3, then=4)
        bench.put(batch("d", base=1), partition=1, start=1, then=2)
        seen: list[Any] = []
        interruption = Interruption(step)
        before = sys.gettrace()
        sys.settrace(interruption)
        try:
            seen.extend(bench.stream)
        except ConsumerTimeout:
            assert interruption.left > 0, f"the interruption at step {step} did not end the loop"
            assert step > 100
            return
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        seen += until_raised(bench.stream)
        assert list(dict.fromkeys(values(seen))) == ["a", "b", "c", "d"], f"interrupted at step {step}"
        assert bench.committable(in_hand=False) == {0: 4, 1: 2}, f"interrupted at step {step}"


def places(handed_out: Any) -> list[tuple[int, int]]:
    """Return the partition and offset of each message that a loop has handed out at once."""
    if isinstance(handed_out, list):
        return [(each.partition, each.offset) for each in handed_out]
    return list(zip(handed_out["partition"].to_pylist(), handed_out["offset"].to_pylist(), strict=True))


def read_on(loop: Iterator[Any], seen: list[tuple[int, int]]) -> None:
    """Add what *loop* hands out to *seen*, until it hands out nothing."""
    for handed_out in loop:
        if not len(handed_out):
            return
        seen += places(handed_out)


@pytest.mark.parametrize("kind", ["batches", "arrow_batches"])
def test_a_batch_is_handed_out_again_only_if_an_interruption_kept_it_from_its_loop(kind: str) -> None:
    for step in count(1):
        bench = Bench()
        bench.reads_again = True
        bench.put(batch("a", "b"), batch("c", "d", base=2), then=4)
        bench.put(batch("e", "f"), partition=1, then=2)
        seen: list[tuple[int, int]] = []
        loop = getattr(bench.stream, kind)(max_records=3, timeout=0)
        interruption, interrupted = Interruption(step), False
        before = sys.gettrace()
        sys.settrace(interruption)
        try:
            read_on(loop, seen)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(before)
        for partition, offset in bench.committable(in_hand=False).items():
            assert not offset or (partition, offset - 1) in seen, f"interrupted at step {step}"
        got = set(seen)
        again: list[tuple[int, int]] = []
        read_on(getattr(bench.stream, kind)(max_records=3, timeout=0), again)
        assert not got.intersection(again), f"interrupted at step {step}"
        once = list(dict.fromkeys(seen + again))
        assert [at for at in once if at[0] == 0] == [(0, 0), (0, 1), (0, 2), (0, 3)], f"step {step}"
        assert [at for at in once if at[0] == 1] == [(1, 0), (1, 1)], f"interrupted at step {step}"
        assert bench.committable(in_hand=False) == {0: 4, 1: 2}, f"interrupted at step {step}"
        if not interrupted:
            assert interruption.left > 0, f"the interruption at step {step} did not end the loop"
            assert step > 50
            return


def test_a_redelivery_that_is_interrupted_loses_nothing_of_a_response_with_several_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for limit in ("_ENOUGH_MESSAGES", "_ENOUGH_AT_ONCE"):
        monkeypatch.setattr(message_decoding, limit, 1)
    for step in count(1):
        bench = Bench(timeout=0)
        bench.put(batch("a", "b"), batch("c", "d", base=2), batch("e", base=4), then=5)
        in_hand = next(bench.stream.batches(3, timeout=0))
        assert values(in_hand) == ["a", "b", "c"]
        interruption = Interruption(step)
        before = sys.gettrace()
        sys.settrace(interruption)
        try:
            bench.stream.redeliver()
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        seen = values(until_raised(bench.stream))
        wanted = ["a", "b", "c", "d", "e"]
        assert seen in (wanted, wanted[3:]), f"interrupted at step {step}"
        assert bench.committable(in_hand=False) == {0: 5}, f"interrupted at step {step}"
        if interruption.left > 0:
            assert step > 20
            assert seen == wanted
            return


def test_a_wait_that_is_interrupted_anywhere_raises_that_and_can_be_gone_on_with() -> None:
    for step in count(1):
        bench = Bench(timeout=0.001)
        interruption = InterruptedCall(step)
        loop = bench.stream.chunks()  # itself: chain would let go of it in there, and it is not to end then
        interrupted = False
        sys.setprofile(interruption)
        try:
            next(loop)
        except ConsumerTimeout:
            pass
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.setprofile(None)
        assert interrupted == (interruption.left <= 0), f"interrupted at step {step}"
        bench.put(batch("a"), then=1)
        assert values([next(iter(bench.stream))]) == ["a"], f"interrupted at step {step}"
        if not interrupted:
            assert step > 10
            return


def test_a_failure_outlives_an_interruption_until_its_partition_is_read_again() -> None:
    for step in count(1):
        bench = Bench(timeout=0)
        bench.stream.queue.put([FetchFailure(bench.cursors[0], KafkaError("no"), 7)])
        interruption = Interruption(step)
        before = sys.gettrace()
        sys.settrace(interruption)
        try:
            next(iter(bench.stream))
        except KafkaError:
            assert interruption.left > 0, f"the interruption at step {step} did not end the loop"
            assert step > 30
            return
        except KeyboardInterrupt:
            pass
        finally:
            sys.settrace(before)
        until_raised(bench.stream, KafkaError)
        assert bench.restarted, f"interrupted at step {step}"


ZERO = TopicPartition("t", 0)


def call_at_every_step(call: Callable[[StreamCore], object]) -> Iterator[tuple[int, bool, Bench]]:
    """Yield a bench for each step of *call*, after *call* was interrupted at that step while "a" was in hand.

    Also yields the number of the step, and True for an interrupted call. The last call is not interrupted.
    """
    for step in count(1):
        bench = Bench(timeout=0)
        bench.reads_again = True
        bench.put(batch("a", "b", "c", "d"), batch("e", base=4), then=5)
        loop = iter(bench.stream)
        assert values([next(loop)]) == ["a"]
        interruption, interrupted = Interruption(step), False
        before = sys.gettrace()
        sys.settrace(interruption)
        try:
            call(bench.stream)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(before)
        del loop
        assert bench.committable(in_hand=False).get(0, 0) == 0, f"interrupted at step {step}"
        assert bench.committable(in_hand=True).get(0, 0) <= 1, f"interrupted at step {step}"
        yield step, interrupted, bench
        if not interrupted:
            assert interruption.left > 0, f"the interruption at step {step} did not end the call"
            assert step > 30
            return


def test_an_interrupted_pause_loses_nothing_whether_a_loop_goes_on_before_or_after_the_resume() -> None:
    for again in (False, True):
        for step, _, bench in call_at_every_step(lambda stream: stream.pause([ZERO])):
            if again:
                bench.stream.pause([ZERO])
            seen = values(until_raised(bench.stream))
            assert not (again and seen), f"interrupted at step {step}"
            assert bench.committable(in_hand=False) == {0: 1 + len(seen)}, f"interrupted at step {step}"
            bench.stream.resume([ZERO])
            seen += values(until_raised(bench.stream))
            assert seen == ["b", "c", "d", "e"], f"interrupted at step {step}"
            assert bench.committable(in_hand=False) == {0: 5}, f"interrupted at step {step}"


def test_an_interrupted_resume_loses_nothing() -> None:
    def pause_and_resume(stream: StreamCore) -> None:
        stream.pause([ZERO])
        stream.resume([ZERO])

    for step, _, bench in call_at_every_step(pause_and_resume):
        bench.stream.resume([ZERO])
        assert values(until_raised(bench.stream)) == ["b", "c", "d", "e"], f"interrupted at step {step}"
        assert bench.committable(in_hand=False) == {0: 5}, f"interrupted at step {step}"


def test_an_interrupted_seek_has_happened_or_not_and_loses_nothing() -> None:
    for step, interrupted, bench in call_at_every_step(lambda stream: stream.seek(ZERO, 0)):
        seen = "".join(values(until_raised(bench.stream)))
        assert seen == "abcde" or (interrupted and seen == "bcde"), f"interrupted at step {step}"
        assert bench.committable(in_hand=False) == {0: 5}, f"interrupted at step {step}"


def test_damaged_records_are_skipped_counted_and_logged_wherever_the_skip_is_interrupted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    damaged = bytearray(batch("b", base=1))
    damaged[-1] ^= 1
    for step in count(1):
        told: list[CorruptRecords] = []
        bench = Bench(timeout=0, on_corrupt=told.append)
        bench.reads_again = True
        bench.put(batch("a"), bytes(damaged), batch("c", base=2), then=3)
        loop = iter(bench.stream)
        assert values([next(loop)]) == ["a"]
        caplog.clear()
        seen: list[Any] = []
        interruption, interrupted = Interruption(step), False
        before = sys.gettrace()
        with caplog.at_level(logging.WARNING, "pyklient.consumer"):
            sys.settrace(interruption)
            try:
                seen.extend(loop)
            except ConsumerTimeout:
                pass
            except KeyboardInterrupt:
                interrupted = True
            finally:
                sys.settrace(before)
            seen += until_raised(bench.stream)
        assert set(values(seen)) == {"c"}, f"interrupted at step {step}"
        assert told[0].first_offset == 1, f"interrupted at step {step}"
        assert bench.cursors[0].counts.corrupt == (1, 1), f"interrupted at step {step}"
        logged = [each for each in caplog.records if getattr(each, "event", "") == "corrupt_records_skipped"]
        assert logged, f"interrupted at step {step}"
        if not interrupted:
            assert interruption.left > 0, f"the interruption at step {step} did not end the loop"
            assert (step > 100, len(logged), len(told)) == (True, 1, 1)
            return


def test_a_damaged_batch_before_the_position_is_passed_by_once_wherever_that_is_interrupted() -> None:
    damaged = bytearray(batch("a" * 500, "b"))
    damaged[23:27] = (9).to_bytes(4, "big")  # its last offset, so the broker sends it for offset 2
    for step in count(1):
        told: list[CorruptRecords] = []
        bench = Bench(timeout=0, on_corrupt=told.append)
        bench.put(bytes(damaged), batch("c", base=2), start=2, then=3)
        interruption, interrupted = Interruption(step), False
        seen: list[Any] = []
        before = sys.gettrace()
        sys.settrace(interruption)
        try:
            seen.extend(bench.stream)
        except ConsumerTimeout:
            pass
        except KeyboardInterrupt:
            interrupted = True
        finally:
            sys.settrace(before)
        seen += until_raised(bench.stream)
        assert set(values(seen)) == {"c"}, f"interrupted at step {step}"
        assert told == [], f"interrupted at step {step}"
        counted_twice = -bench.cursors[0].waiting_bytes
        assert counted_twice < len(damaged), f"interrupted at step {step}"
        if not interrupted:
            assert counted_twice == 0
            assert step > 50
            return

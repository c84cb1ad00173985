import json
import pickle
import threading
import time
from collections.abc import Callable
from itertools import islice
from typing import TYPE_CHECKING, cast

import pytest

from pyklient.consumer.fetch.fetch_position import FetchFailure
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.errors import ConsumerTimeout, CorruptRecordError, KafkaError, OffsetOutOfRangeError
from pyklient.serialization import decode_json
from pyklient.topic_partition import TopicPartition
from tests.consumer.stream.bench import Bench, batch, marker, until_raised, values

if TYPE_CHECKING:
    from pyklient.consumer.stream_control import StreamControl

pytestmark = pytest.mark.both_kernels

T0 = TopicPartition("t", 0)


def test_messages_come_in_the_order_they_were_fetched() -> None:
    bench = Bench()
    bench.put(batch("a", "b"), batch("c", base=2), then=3)
    bench.put(batch("d"), partition=1, then=1)
    messages = list(islice(bench.stream, 4))
    assert values(messages) == ["a", "b", "c", "d"]
    assert [(each.topic, each.partition, each.offset) for each in messages] == [
        ("t", 0, 0),
        ("t", 0, 1),
        ("t", 0, 2),
        ("t", 1, 0),
    ]


def test_a_new_loop_goes_on_inside_a_chunk() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), then=3)
    assert values(list(islice(bench.stream, 1))) == ["a"]
    assert values(list(islice(bench.stream, 1))) == ["b"]
    assert values(next(bench.stream.batches())) == ["c"]


def test_a_message_that_is_done_does_not_come_into_hand_again_when_a_loop_asks() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), then=3)
    assert values(list(islice(bench.stream, 1))) == ["a"]
    assert bench.committable(in_hand=False) == {0: 0}
    chunk = next(bench.stream.chunks())  # a loop has asked, and has not got its message yet
    assert bench.committable(in_hand=False) == {0: 1}
    bench.stream.pause([T0])
    assert bench.committable(in_hand=False) == {0: 1}
    bench.stream.resume([T0])
    assert values(list(islice(bench.stream, 1))) == ["b"]
    assert bench.committable(in_hand=False) == {0: 1}
    assert chunk.remaining == 0


def test_records_before_the_position_are_not_handed_out() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), start=2, then=3)
    assert values(list(islice(bench.stream, 1))) == ["c"]


def test_a_silent_topic_raises_consumer_timeout_and_a_new_loop_resumes() -> None:
    bench = Bench(timeout=0.05)
    for _ in range(2):
        began = time.monotonic()
        with pytest.raises(ConsumerTimeout, match="no message arrived for t within"):
            next(iter(bench.stream))
        assert 0.04 < time.monotonic() - began < 10
    bench.put(batch("a"), then=1)
    assert values(list(islice(bench.stream, 1))) == ["a"]


def test_a_batch_takes_what_is_there_across_partitions_and_no_more_than_asked() -> None:
    bench = Bench()
    bench.put(batch("a", "b"), batch("c", base=2), then=3)
    bench.put(batch("d", "e"), partition=1, then=2)
    batches = bench.stream.batches(max_records=4, timeout=0.01)
    assert values(next(batches)) == ["a", "b", "c", "d"]
    assert values(next(batches)) == ["e"]
    assert next(batches) == []
    bench.put(batch("f", base=3), start=3, then=4)
    assert values(next(batches)) == ["f"]


def test_a_batch_of_nothing_is_refused_at_once() -> None:
    with pytest.raises(ValueError, match="max_records=0"):
        Bench().stream.batches(max_records=0)


def test_batches_without_a_timeout_wait_as_a_loop_does() -> None:
    bench = Bench(timeout=0.01)
    bench.put(batch("a"), then=1)
    batches = bench.stream.batches(5, None)
    assert values(next(batches)) == ["a"]
    with pytest.raises(ConsumerTimeout):
        next(batches)
    with pytest.raises(TypeError, match="timeout takes a number of seconds, not '5'"):
        bench.stream.batches(5, "5")  # type: ignore[arg-type]  # the mistake itself


def test_iteration_ends_for_good_when_the_stream_ends() -> None:
    bench = Bench(timeout=None)
    bench.put(batch("a", "b"), then=2)
    loop = iter(bench.stream)
    assert next(loop).value == b"a"
    bench.stream.end()
    assert list(loop) == []
    assert list(bench.stream) == []
    assert list(bench.stream.batches()) == []


@pytest.mark.parametrize("kind", ["messages", "batches", "arrow_batches"])
@pytest.mark.parametrize("batches", [[batch("a", "b", "c")], [batch("a", "b"), batch("c", base=2)]])
def test_what_the_end_of_a_stream_keeps_from_its_loop_does_not_count_as_handed_out(
    kind: str, batches: list[bytes]
) -> None:
    bench = Bench(timeout=None)
    bench.put(*batches, then=3)
    loop = iter(bench.stream) if kind == "messages" else getattr(bench.stream, kind)(1)
    next(loop)
    bench.stream.end()  # closing ends the streams first, and takes their partitions away a little later
    assert list(loop) == []
    assert bench.committable(in_hand=False) == {0: 1}


def test_what_is_decoded_while_the_stream_ends_does_not_count_as_handed_out() -> None:
    def decoder(data: bytes | None) -> bytes | None:
        bench.stream.end()
        return data

    bench = Bench(timeout=None, value_decoder=decoder)
    bench.put(batch("a"), then=1)
    assert list(bench.stream) == []
    assert bench.committable(in_hand=True) == {}


def test_a_loop_that_waits_ends_when_the_stream_ends() -> None:
    bench = Bench(timeout=None)
    seen: list[object] = []
    reader = threading.Thread(target=lambda: seen.extend(bench.stream))
    reader.start()
    bench.put(batch("a"), then=1)
    deadline = time.monotonic() + 5
    while not (seen and bench.stream.wanted) and time.monotonic() < deadline:
        time.sleep(0.01)
    bench.stream.end()
    reader.join(30)
    assert values(seen) == ["a"]
    assert not reader.is_alive()


def test_a_message_counts_as_in_hand_until_the_next_one_is_asked_for() -> None:
    bench = Bench()
    bench.put(batch("a", "b"), then=2)
    loop = iter(bench.stream)
    assert bench.committable(in_hand=True) == {}
    next(loop)
    assert bench.committable(in_hand=True) == {0: 1}
    assert bench.committable(in_hand=False) == {0: 0}, "a crash now must hand message 0 out again"
    next(loop)
    assert bench.committable(in_hand=True) == {0: 2}
    assert bench.committable(in_hand=False) == {0: 1}
    with pytest.raises(ConsumerTimeout):
        next(loop)
    assert bench.committable(in_hand=False) == {0: 2}


def test_the_last_message_of_a_chunk_is_in_hand_too() -> None:
    bench = Bench()
    bench.put(batch("a"), then=1)
    bench.put(batch("b"), partition=1, then=1)
    loop = iter(bench.stream)
    next(loop)
    assert bench.committable(in_hand=False) == {0: 0}
    next(loop)
    assert bench.committable(in_hand=False) == {0: 1, 1: 0}


def test_a_batch_is_in_hand_as_a_whole() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), then=3)
    bench.put(batch("d", "e"), partition=1, then=2)
    batches = bench.stream.batches(max_records=4, timeout=0.01)
    next(batches)
    assert bench.committable(in_hand=True) == {0: 3, 1: 1}
    assert bench.committable(in_hand=False) == {0: 0, 1: 0}
    next(batches)
    assert bench.committable(in_hand=False) == {0: 3, 1: 1}


def test_forgetting_a_generation_keeps_what_a_later_one_has_in_hand() -> None:
    bench = Bench()
    bench.put(batch("a", "b", "c"), then=3)
    batches = bench.stream.batches(max_records=2, timeout=0.01)
    next(batches)
    bench.stream.forget({T0: 0})
    assert bench.committable(in_hand=False) == {0: 0}, "both messages are in hand"
    next(batches)
    bench.stream.forget({T0: 0})
    assert bench.committable(in_hand=False) == {0: 2}
    bench.deactivate()
    bench.stream.revoke()
    bench.stream.forget({T0: 1})
    assert bench.committable(in_hand=True) == {}


def test_leaving_a_loop_keeps_its_last_message_in_hand() -> None:
    bench = Bench()
    bench.put(batch("a", "b"), then=2)
    for _ in bench.stream:
        break
    assert bench.committable(in_hand=False) == {0: 0}, "nobody knows how the body ended"
    assert bench.committable(in_hand=True) == {0: 1}


def test_what_is_revoked_is_not_handed_out_and_the_position_stays() -> None:
    bench = Bench(timeout=0.05)
    bench.put(batch("a", "b", "c"), then=3)
    bench.put(batch("d", base=3), start=3, then=4)
    loop = iter(bench.stream)
    next(loop)
    bench.deactivate()
    bench.stream.revoke()
    with pytest.raises(ConsumerTimeout):
        next(loop)
    assert bench.committable(in_hand=True) == {0: 1}


def test_late_fetches_of_a_replaced_assignment_are_dropped() -> None:
    bench = Bench(timeout=0.05)
    old = bench.cursors
    bench.deactivate()
    bench.stream.revoke()
    bench.assign(generation=2)
    new, bench.cursors = bench.cursors, old
    bench.put(batch("late"), then=1)
    bench.cursors = new
    bench.put(batch("fresh"), then=1)
    messages = list(islice(bench.stream, 1))
    assert values(messages) == ["fresh"]
    assert bench.stream.handed(in_hand=True)[T0].generation == 2


def test_a_piece_that_was_queued_and_then_taken_away_is_passed_over() -> None:
    bench = Bench(timeout=0.05)
    bench.put(batch("a"), then=1)
    bench.deactivate()
    with pytest.raises(ConsumerTimeout):
        next(iter(bench.stream))


def test_a_failure_of_a_partition_that_was_taken_away_is_passed_over() -> None:
    bench = Bench(timeout=0.05)
    bench.stream.queue.put([FetchFailure(bench.cursors[0], CorruptRecordError("bad bytes"), 0)])
    bench.deactivate()
    with pytest.raises(ConsumerTimeout):
        next(iter(bench.stream))


def test_what_is_taken_away_while_it_is_decoded_is_not_handed_out() -> None:
    def decoder(data: bytes | None) -> bytes | None:
        bench.deactivate()
        bench.stream.revoke()
        return data

    bench = Bench(timeout=0.05, value_decoder=decoder)
    bench.put(batch("a"), then=1)
    assert until_raised(bench.stream) == []
    assert bench.committable(in_hand=True) == {}


def test_control_batches_and_gaps_move_the_position_but_are_not_handed_out() -> None:
    bench = Bench(timeout=0.05)
    bench.put(batch("a", transactional=True, producer_id=5, producer_epoch=0), marker(1, 1), then=2)
    bench.put(start=2, then=9)
    assert values(until_raised(bench.stream)) == ["a"]
    assert bench.committable(in_hand=False) == {0: 9}


def test_a_corrupt_batch_surfaces_behind_the_good_ones_with_its_place() -> None:
    bench = Bench()
    bad = bytearray(batch("c", base=2))
    bad[-1] ^= 1
    bench.put(batch("a", "b"), bytes(bad), then=3)
    loop = iter(bench.stream)
    assert values([next(loop), next(loop)]) == ["a", "b"]
    with pytest.raises(CorruptRecordError, match="t-0 at offset 2"):
        next(loop)
    assert bench.restarted == [(T0, 2)], "a new loop fetches it again"


def test_checksums_are_not_looked_at_when_told_so() -> None:
    bench = Bench(check_crcs=False)
    bad = bytearray(batch("a"))
    bad[17] ^= 1
    bench.put(bytes(bad), then=1)
    assert values(list(islice(bench.stream, 1))) == ["a"]


def test_a_decoder_that_fails_raises_its_own_error_with_the_place_and_the_next_loop_goes_on() -> None:
    bench = Bench(value_decoder=decode_json)
    bench.put(batch("1", "2", "not json", "4"), then=4)
    loop = iter(bench.stream)
    assert values([next(loop), next(loop)]) == [1, 2]
    with pytest.raises(json.JSONDecodeError) as caught:
        next(loop)
    assert "t-0 at offset 2" in "".join(caught.value.__notes__)
    assert bench.committable(in_hand=True) == {0: 2}
    assert values(list(islice(bench.stream, 1))) == [4]


def test_a_batch_hands_out_what_comes_before_an_error_and_then_raises_it() -> None:
    bench = Bench(value_decoder=decode_json)
    bench.put(batch("1"), then=1)
    bench.put(batch("2", "no"), partition=1, then=2)
    batches = bench.stream.batches(timeout=0.01)
    assert values(next(batches)) == [1, 2]
    with pytest.raises(json.JSONDecodeError):
        next(batches)
    assert next(bench.stream.batches(timeout=0.01)) == []


def test_a_failure_of_fetching_is_raised_in_order_and_the_next_loop_tries_again() -> None:
    bench = Bench()
    bench.put(batch("a"), then=1)
    bench.stream.queue.put([FetchFailure(bench.cursors[0], OffsetOutOfRangeError("gone"), 1)])
    loop = iter(bench.stream)
    next(loop)
    with pytest.raises(OffsetOutOfRangeError, match="gone"):
        next(loop)
    assert bench.restarted == [(T0, 1)]


def test_an_error_that_ends_everything_is_raised_by_every_loop_after_what_is_there() -> None:
    bench = Bench(timeout=None)
    bench.put(batch("a"), then=1)
    bench.stream.queue.fail(KafkaError("fenced"))
    loop = iter(bench.stream)
    next(loop)
    with pytest.raises(KafkaError, match="fenced"):
        next(loop)
    with pytest.raises(KafkaError, match="fenced"):
        next(iter(bench.stream))


def test_aborted_transactions_are_passed_over_and_committed_ones_are_not() -> None:
    bench = Bench(timeout=0.05)

    def transactional(text: str, base: int) -> bytes:
        return batch(text, base=base, transactional=True, producer_id=5, producer_epoch=0)

    bench.put(
        transactional("aborted", 0),
        batch("plain", base=1),
        marker(2, 0),
        transactional("committed", 3),
        marker(4, 1),
        then=5,
        aborted=[(5, 0)],
    )
    assert values(until_raised(bench.stream)) == ["plain", "committed"]
    assert bench.committable(in_hand=False) == {0: 5}


def test_what_is_fetched_late_for_a_claim_that_has_a_successor_is_dropped() -> None:
    bench = Bench(timeout=0.05)
    successor = bench.stream.queue.replace(bench.cursors[0], 1)
    assert successor is not None
    bench.put(batch("a", "b"), then=2)
    assert bench.cursors[0].waiting_bytes == 0
    bench.cursors[0] = successor
    bench.put(batch("b", base=1), start=1, then=2)
    assert values(until_raised(bench.stream)) == ["b"]


def test_a_bounded_stream_ends_once_every_partition_has_come_to_its_end() -> None:
    bench = Bench(timeout=5)
    bench.cursors[0].end, bench.cursors[1].end = 2, 7
    bench.stream.end_with(bench.cursors)
    bench.put(batch("a", "b", "too late"), then=3)
    bench.put(batch("c"), partition=1, then=1)
    bench.put(start=1, partition=1, then=7)
    assert values(list(bench.stream)) == ["a", "b", "c"]


def test_bytes_taken_are_accounted_for_as_they_are_decoded() -> None:
    bench = Bench()
    cursor = bench.cursors[0]
    fetched = bench.put(batch("a"), batch("b", base=1), then=2)
    woken: list[bool] = []
    cursor.on_decoded = lambda: woken.append(True)
    assert cursor.waiting_bytes == fetched.size > 0
    list(islice(bench.stream, 2))
    assert cursor.waiting_bytes == 0
    assert woken == [True]


def _until(deadline: float) -> Callable[[], float]:
    return lambda: deadline - time.monotonic()


def test_a_loop_elsewhere_with_a_message_in_hand_is_waited_for() -> None:
    bench = Bench(timeout=None)
    bench.put(batch("a"), then=1)
    got, go_on = threading.Event(), threading.Event()

    def work() -> None:
        for _ in bench.stream:
            got.set()
            go_on.wait(60)

    reader = threading.Thread(target=work)
    reader.start()
    assert got.wait(30)
    assert bench.stream.is_held_elsewhere()
    assert bench.stream.wait_until_asked(_until(time.monotonic())), "the partition stays ours"
    bench.deactivate()
    assert not bench.stream.wait_until_asked(_until(time.monotonic() + 0.05))
    go_on.set()
    assert bench.stream.wait_until_asked(_until(time.monotonic() + 5))
    bench.stream.end()
    reader.join(30)


def test_a_stream_is_stalled_only_while_something_waits_and_nothing_is_taken() -> None:
    bench = Bench()
    assert bench.stream.stalled_for(100.0) == 0
    assert bench.stream.stalled_for(200.0) == 0, "nothing waits"
    bench.put(batch("a", "b", "c"), then=3)
    bench.stream.stalled_for(300.0)
    assert bench.stream.stalled_for(310.0) == 110.0
    loop = iter(bench.stream)
    next(loop)
    assert bench.stream.stalled_for(320.0) == 0
    assert bench.stream.stalled_for(325.0) == 5.0, "a message is in hand and another waits"
    next(loop)
    assert bench.stream.stalled_for(330.0) == 0


def test_a_loop_that_only_looks_in_goes_on_as_well_as_one_that_waits() -> None:
    bench = Bench()
    bench.put(batch("a", "b"), then=2)
    batches = bench.stream.batches(max_records=1, timeout=0)
    next(batches)
    bench.stream.stalled_for(100.0)
    assert not bench.stream.wanted
    next(batches)
    assert bench.stream.wanted


def test_a_piece_read_to_its_end_stays_read_when_its_bytes_are_moved_meanwhile() -> None:
    bench = Bench()
    fetched = bench.put(batch("a", "b"), then=2)
    copied = memoryview(bytes(fetched.buffer))
    next(iter(bench.stream))
    fetched.buffer = copied
    assert fetched.size == 0


def test_a_stream_cannot_be_pickled_and_says_what_to_do() -> None:
    control = cast("StreamControl", None)
    with pytest.raises(TypeError, match="create a ConsumerConnector where the stream is used"):
        pickle.dumps(KafkaStream(Bench().stream, control))

"""Appending records: the Appender of a kernel, its batches and its deliveries."""

import gc
import pickle
import sys
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient import kernel as in_use
from pyklient.errors import KafkaError, KafkaTimeoutError, broker_error
from pyklient.kernel import Delivery
from pyklient.topic_partition import RecordMetadata
from tests.kernel.appending import PLENTY, Bench, records_of
from tests.kernel.kernels import COMPILED, PYTHON, outcome_of

blobs = st.none() | st.binary(max_size=300)
headers = st.lists(st.tuples(st.text(max_size=10), blobs), max_size=3)
rows = st.tuples(st.integers(0, (1 << 62)), blobs, blobs, headers)


@given(st.lists(rows, min_size=1, max_size=30))
def test_what_is_appended_is_what_a_reader_finds(
    kernel: Any,
    given_rows: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]],
) -> None:
    bench = Bench(kernel, batch_size=1 << 20)
    batch = bench.open()
    for time_ms, key, value, pairs in given_rows:
        delivery = bench.appender.send("clicks", value, key, 0, time_ms, pairs)
        assert delivery is not bench.nowhere
    expected = [(time_ms, key, value, tuple(pairs)) for time_ms, key, value, pairs in given_rows]
    assert records_of(batch) == expected
    assert batch.max_timestamp == max(row[0] for row in given_rows)


def test_batches_of_very_many_small_records_are_read_back(kernel: Any) -> None:
    bench = Bench(kernel, batch_size=1 << 24)
    batch = bench.open()
    for number in range(70_000):
        bench.appender.send("clicks", b"%d" % number, None if number % 2 else b"k")
    assert [int(value or b"") for _, _, value, _ in records_of(batch)] == list(range(70_000))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 4_095, 4_096, 8_191, 8_192, 100_000])
@pytest.mark.parametrize("key", [None, b"", b"k", bytes(4_096)])
def test_sizes_on_both_sides_of_each_border_are_read_back(kernel: Any, size: int, key: bytes | None) -> None:
    bench = Bench(kernel, batch_size=1 << 24)
    batch = bench.open()
    for delta in (0, 1, 1_023, 1_024, 1 << 40):
        bench.appender.send("clicks", bytes(size), key, None, 1_000 + delta)
    assert records_of(batch) == [
        (1_000 + delta, key, bytes(size), ()) for delta in (0, 1, 1_023, 1_024, 1 << 40)
    ]


def test_a_record_without_a_time_gets_the_clocks(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    for _ in range(3):
        bench.appender.send("clicks", b"x")
        bench.now_ms += 7
    assert [time_ms for time_ms, _, _, _ in records_of(batch)] == [1_000_000, 1_000_007, 1_000_014]


def test_a_clock_that_goes_back_is_no_trouble(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    for time_ms in (500, 100, 900):
        bench.appender.send("clicks", b"x", None, None, time_ms)
    assert [time_ms for time_ms, _, _, _ in records_of(batch)] == [500, 100, 900]
    assert batch.max_timestamp == 900


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(("other", b"x"), id="unknown topic"),
        pytest.param(("clicks", "x"), id="text"),
        pytest.param(("clicks", 1), id="number"),
        pytest.param(("clicks", bytearray(b"x")), id="bytearray"),
        pytest.param(("clicks", b"x", "key"), id="text as key"),
        pytest.param(("clicks", b"x", None, 2), id="no such partition"),
        pytest.param(("clicks", b"x", None, -1), id="negative partition"),
        pytest.param(("clicks", b"x", None, True), id="truth as partition"),
        pytest.param(("clicks", b"x", None, "0"), id="text as partition"),
        pytest.param(("clicks", b"x", None, None, -1), id="negative time"),
        pytest.param(("clicks", b"x", None, None, 1 << 63), id="large time"),
        pytest.param(("clicks", b"x", None, None, 1.5), id="half a time"),
        pytest.param(("clicks", b"x", None, None, None, [("a", "b")]), id="text in a header"),
        pytest.param(("clicks", b"x", None, None, None, [(b"a", b"b")]), id="bytes as a header's name"),
        pytest.param(("clicks", b"x", None, None, None, [("a",)]), id="half a header"),
        pytest.param(("clicks", b"x", None, None, None, 5), id="headers that are none"),
        pytest.param(("clicks", b"x", None, None, None, None, 5), id="a callback that is none"),
        pytest.param(("clicks", bytes(20_000)), id="larger than a batch"),
        pytest.param(("clicks", b"x", None, None, None, [("\ud800", b"")]), id="a name that is no text"),
    ],
)
def test_what_is_no_plain_record_is_declined_and_leaves_nothing_behind(
    kernel: Any, arguments: tuple[Any, ...]
) -> None:
    bench = Bench(kernel)
    batch = bench.open(partitions=2)
    used = bench.appender.used_memory
    assert bench.appender.send(*arguments) is bench.nowhere
    assert bench.declined == [arguments + (None,) * (7 - len(arguments))]
    assert (batch.count, bench.appender.used_memory) == (0, used)


def test_everything_is_declined_after_the_end(kernel: Any) -> None:
    bench = Bench(kernel)
    bench.open()
    bench.appender.shut()
    assert bench.appender.send("clicks", b"x") is bench.nowhere


def test_a_topic_is_found_by_what_it_is_called_now(kernel: Any) -> None:
    bench = Bench(kernel)
    names = ["".join(("cli", "cks")) for _ in range(2)]
    first = bench.open()
    second = bench.open(topic="views")
    for topic in (*names, "views", names[0], "views"):
        assert bench.appender.send(topic, b"x").topic == topic
    assert (first.count, second.count) == (3, 2)
    bench.appender.remove_topic("views")
    assert bench.appender.send("views", b"x") is bench.nowhere
    again = bench.open(topic="views")
    assert bench.appender.send("views", b"x").batch_and_index == (again, 0)
    for odd in (None, 7, b"views"):
        assert bench.appender.send(odd, b"x") is bench.nowhere
    assert outcome_of(bench.appender.send, [], b"x")[0] is TypeError
    bench.appender.send(names[0], b"x")
    bench.appender.shut()
    assert bench.appender.send(names[0], b"x") is bench.nowhere


def test_keys_choose_partitions_as_javas_client_does(kernel: Any) -> None:
    bench = Bench(kernel)
    bench.open(partitions=7)
    keys = [b"", b"a", b"user-1", "schlüssel".encode(), bytes(100)]
    for key in keys:
        assert bench.appender.send("clicks", b"x", key).partition == kernel.murmur2(key) % 7
    assert kernel.murmur2(b"21") == -973932308 & 0x7FFFFFFF
    assert kernel.murmur2(b"foobar") == -790332482 & 0x7FFFFFFF


def test_records_without_a_key_stick_to_one_partition(kernel: Any) -> None:
    bench = Bench(kernel)
    bench.open(partitions=3)
    bench.appender.set_sticky_partition("clicks", 2)
    assert {bench.appender.send("clicks", b"x").partition for _ in range(10)} == {2}
    bench.appender.set_sticky_partition("clicks", 9)
    assert bench.appender.sticky_partition("clicks") == 2


def test_the_bytes_of_a_sticky_partition_are_those_of_its_sealed_batches(kernel: Any) -> None:
    bench = Bench(kernel)
    appender = bench.appender
    assert appender.sticky_bytes("clicks") == 0
    bench.open(partitions=3)
    assert appender.sticky_bytes("clicks") == kernel.Appender.NEVER_CHOSEN
    appender.set_sticky_partition("clicks", 2)
    first = appender.begin_batch("clicks", 2, 0.0)
    appender.send("clicks", b"one")
    assert appender.sticky_bytes("clicks") == 0
    second = appender.begin_batch("clicks", 2, 0.0)
    assert appender.sticky_bytes("clicks") == first.size > 0
    appender.send("clicks", b"two")
    appender.send("clicks", b"three", partition=1)
    for partition in (1, 2):
        appender.seal_batch(appender.current_batch("clicks", partition))
    assert appender.sticky_bytes("clicks") == first.size + second.size
    appender.seal_batch(second)
    assert appender.sticky_bytes("clicks") == first.size + second.size
    appender.set_sticky_partition("clicks", 1)
    assert appender.sticky_bytes("clicks") == 0


def test_a_full_batch_declines_and_a_first_record_may_be_larger_once_it_is_checked(kernel: Any) -> None:
    bench = Bench(kernel, batch_size=100)
    batch = bench.open()
    assert bench.appender.send("clicks", bytes(500)) is bench.nowhere
    assert bench.appender.append("clicks", 0, bytes(500), None, 7, (), None, PLENTY) is not None
    assert bench.appender.append("clicks", 0, bytes(500), None, 7, (), None, PLENTY) is None
    assert bench.appender.send("clicks", b"x") is bench.nowhere
    assert batch.count == 1
    bench.appender.begin_batch("clicks", 0, 0.0)
    assert batch.sealed
    assert bench.appender.send("clicks", b"x") is not bench.nowhere


def test_memory_is_charged_until_it_is_released(kernel: Any) -> None:
    bench = Bench(kernel, limit=5_000)
    batch = bench.open()
    before = bench.appender.used_memory
    while bench.appender.send("clicks", bytes(100)) is not bench.nowhere:
        pass
    assert before < bench.appender.used_memory <= 5_000
    assert bench.appender.used_memory == batch.charged
    bench.appender.release_memory(batch.charged)
    assert bench.appender.used_memory == 0
    assert bench.appender.send("clicks", bytes(100)) is not bench.nowhere


def test_a_callback_is_charged_for(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    bench.appender.send("clicks", b"x")
    plain = batch.charged
    bench.appender.send("clicks", b"x", None, None, None, None, print)
    assert batch.charged - plain > 100


def test_a_taken_batch_gets_no_more_records(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    bench.appender.send("clicks", b"x")
    bench.appender.seal_batch(batch)
    assert bench.appender.send("clicks", b"y") is bench.nowhere
    assert batch.count == 1
    assert batch.sealed


def test_a_topic_that_shrinks_or_goes_closes_its_batches(kernel: Any) -> None:
    bench = Bench(kernel)
    bench.open(partitions=3)
    kept, gone = bench.appender.current_batch("clicks", 0), bench.appender.current_batch("clicks", 2)
    bench.appender.set_partitions("clicks", 2)
    assert kept is not None
    assert gone is not None
    assert (kept.sealed, gone.sealed) == (False, True)
    assert bench.appender.begin_batch("clicks", 2, 0.0) is None
    bench.appender.remove_topic("clicks")
    assert kept.sealed
    assert bench.appender.partition_count("clicks") == 0
    assert bench.appender.send("clicks", b"x") is bench.nowhere


def test_an_interrupted_append_does_not_count() -> None:
    bench = Bench(PYTHON)  # the compiled one runs no Python code, so nothing interrupts it
    batch = bench.open()
    bench.appender.send("clicks", b"one")
    batch.records += b"half a rec"
    bench.appender.send("clicks", b"two")
    batch.records += b"and another"
    assert [value for _, _, value, _ in records_of(batch)] == [b"one", b"two"]


def test_a_batch_tells_each_record_its_own_outcome(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    sent = [bench.appender.send("clicks", b"x", None, None, 50 + number) for number in range(6)]
    assert not any(delivery.done() for delivery in sent)
    assert batch.report(4, 6, 70, 999, None) is None
    assert batch.report(0, 2, 10, -1, None) is None
    assert not sent[0].done()
    assert batch.report(2, 4, -1, -1, KafkaError("lost")) == []
    assert [delivery.result(0) for delivery in sent[:2]] == [
        RecordMetadata("clicks", 0, 10, 50),
        RecordMetadata("clicks", 0, 11, 51),
    ]
    assert sent[5].result(0) == RecordMetadata("clicks", 0, 71, 999)
    for delivery in sent[2:4]:
        with pytest.raises(KafkaError, match="lost"):
            delivery.result(0)
    assert bench.tracker.report() is None


def test_every_callback_gets_the_delivery_that_send_returned(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    told: list[tuple[str, Delivery]] = []
    failed: list[tuple[Delivery, str]] = []

    def refuse(delivery: Delivery) -> None:
        raise SystemExit(f"record {delivery.batch_and_index[1]}")

    sent = [
        bench.appender.send("clicks", b"x", on_delivery=lambda delivery: told.append(("first", delivery))),
        bench.appender.send("clicks", b"x"),
        bench.appender.send("clicks", b"x", on_delivery=refuse),
        bench.appender.send("clicks", b"x", on_delivery=refuse),
    ]
    sent[0].add_done_callback(lambda delivery: told.append(("second", delivery)))
    listeners = batch.report(0, 4, 7, -1, None)
    assert listeners is not None
    kernel.call_back(listeners, lambda delivery: failed.append((delivery, str(sys.exception()))))
    assert [name for name, _ in told] == ["first", "second"]
    assert all(delivery is sent[0] for _, delivery in told)
    assert [(one is other, said) for one, (other, said) in zip(sent[2:], failed, strict=True)] == [
        (True, "record 2"),
        (True, "record 3"),
    ]
    kernel.call_back([], failed.append)


def test_a_callback_makes_no_work_for_the_garbage_collector() -> None:
    bench = Bench(COMPILED, batch_size=1 << 20)
    bench.open()
    gc.collect()
    gc.disable()
    try:
        before = gc.get_count()[0]
        for _ in range(1_000):
            bench.appender.send("clicks", b"x", on_delivery=print)
        assert gc.get_count()[0] - before < 500
    finally:
        gc.enable()


def test_what_is_left_of_a_batch_can_be_failed(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    sent = [bench.appender.send("clicks", b"x", None, None, None, None, print) for _ in range(6)]
    batch.report(2, 3, 10, -1, None)
    assert len(batch.fail_unreported(KafkaError("lost"))) == 2 * 6
    assert [delivery.exception(0) is None for delivery in sent] == [False, False, True, False, False, False]
    untouched = bench.open()
    bench.appender.send("clicks", b"x")
    untouched.fail_unreported(KafkaError("lost"))
    assert untouched.done


def test_a_wait_that_has_failed_has_seen_no_outcome(kernel: Any) -> None:
    bench = Bench(kernel, own_thread=True)
    batch = bench.open()
    delivery = bench.appender.send("clicks", b"x")
    with pytest.raises(KafkaError, match="inside on_delivery"):
        delivery.result(30)
    batch.report(0, 1, -1, -1, KafkaError("lost"))
    report = bench.tracker.report()
    assert report is not None
    assert report.count == 1


def test_waiting_ends_with_the_outcome_or_the_time(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    delivery = bench.appender.send("clicks", b"x")
    with pytest.raises(KafkaTimeoutError, match="clicks-0"):
        delivery.result(0.01)
    with pytest.raises(KafkaTimeoutError):
        delivery.exception(0)
    found: list[RecordMetadata] = []
    threads = [
        threading.Thread(target=lambda: found.append(delivery.result(30)), daemon=True) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    batch.report(0, 1, 3, -1, None)
    for thread in threads:
        thread.join(30)
    assert [one.offset for one in found] == [3] * 5


def test_failures_are_unseen_until_somebody_looks(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    sent = [bench.appender.send("clicks", b"x") for _ in range(5)]
    with pytest.raises(KafkaTimeoutError):
        sent[0].result(0)
    batch.report(0, 4, -1, -1, KafkaError("lost"))
    batch.report(4, 5, 0, -1, None)
    sent[1].exception(0)
    sent[1].exception(0)
    report = bench.tracker.report()
    assert report is not None
    assert report.count == 3
    later = bench.open()
    bench.appender.send("clicks", b"x")
    later.report(0, 1, -1, -1, KafkaError("lost later"))
    sent[2].exception(0)  # reported already, so this strikes nothing out
    report = bench.tracker.report()
    assert report is not None
    assert report.count == 1
    assert "lost later" in str(report)
    assert bench.tracker.report() is None


def test_deliveries_are_compared_by_record(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    first, second = bench.appender.send("clicks", b"x"), bench.appender.send("clicks", b"x")
    assert first == kernel.Delivery(batch, 0, 0)
    assert hash(first) == hash(kernel.Delivery(batch, 0, 0))
    assert first != second
    assert first != 0
    assert (first.topic, first.partition, first.batch_and_index) == ("clicks", 0, (batch, 0))


def test_a_delivery_travels_in_a_pickle_once_its_outcome_is_known() -> None:
    bench = Bench(in_use)
    batch = bench.open()
    sent = [bench.appender.send("clicks", b"x", None, None, 50 + number) for number in range(4)]
    with pytest.raises(TypeError, match="result"):
        pickle.dumps(sent[0])
    batch.report(0, 3, 70, -1, None)
    batch.report(3, 4, -1, -1, broker_error(29, "clicks"))
    copies: list[Delivery] = pickle.loads(pickle.dumps(sent))
    assert [copy.result(0) for copy in copies[:3]] == [one.result(0) for one in sent[:3]]
    assert copies[:3] == sent[:3]
    assert set(copies[:3]) == set(sent[:3])
    assert copies[0] != sent[1]
    assert repr(copies[2]) == repr(sent[2])
    assert str(copies[3].exception(0)) == str(sent[3].exception(0))
    assert copies[3].done()
    heard: list[Delivery] = []
    copies[3].add_done_callback(heard.append)
    assert heard == [copies[3]]
    assert b"_batch_py" not in pickle.dumps(sent[0])


def test_each_who_asks_gets_an_exception_of_their_own(kernel: Any) -> None:
    bench = Bench(kernel)
    batch = bench.open()
    delivery = bench.appender.send("clicks", b"x")
    error = KafkaError("lost")
    error.__cause__ = OSError("cut")
    batch.report(0, 1, -1, -1, error)
    first, second = delivery.exception(0), delivery.exception(0)
    assert first is not second
    assert first is not error
    assert str(first) == str(second) == "lost"
    assert first is not None
    assert isinstance(first.__cause__, OSError)


def test_threads_do_not_tear_records_apart(kernel: Any) -> None:
    bench = Bench(kernel, batch_size=1 << 30)
    batch = bench.open()

    def send(letter: bytes) -> None:
        for number in range(2_000):
            bench.appender.send("clicks", letter * 20 + b"%d" % number)

    threads = [threading.Thread(target=send, args=(letter,), daemon=True) for letter in (b"a", b"b", b"c")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    values = [value or b"" for _, _, value, _ in records_of(batch)]
    assert len(values) == 6_000
    for letter in (b"a", b"b", b"c"):
        mine = [value for value in values if value.startswith(letter)]
        assert mine == [letter * 20 + b"%d" % number for number in range(2_000)]


def test_a_wrong_keyword_is_refused_by_the_name_that_users_call() -> None:
    send: Any = Bench(in_use).appender.send
    with pytest.raises(TypeError, match=r"^send\(\) got an unexpected keyword argument 'callback'"):
        send("clicks", b"value", callback=print)

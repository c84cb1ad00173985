"""Both kernels append the same records to the same batches, decline the same calls, and return the same
reports."""

import pickle
import sys
import threading
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import KafkaError, KafkaTimeoutError
from pyklient.kernel.append.open_batches import BATCH_COST
from tests.kernel.kernels import COMPILED, KERNELS, PYTHON, outcome_of

TOPICS: Final = ("clicks", "views")
BATCH_SIZE: Final = 600
INT64: Final = (1 << 63) - 1
LIMIT: Final = 20_000


class Tracker:
    """A tracker that records unseen failures; waiting ends at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.unseen_so_far: list[tuple[int, str]] = []

    def wait(self, batch: Any, timeout: float | None) -> bool:
        return bool(batch.done)

    def unseen(self, batch: Any, change: int, error: KafkaError) -> None:
        self.unseen_so_far.append((change, str(error)))


class Bench:
    """An Appender of one kernel, driven by steps that can be repeated with the other kernel."""

    def __init__(self, kernel: Any) -> None:
        self.tracker = Tracker()
        self.now_ns = 1_700_000_000_000_999_999
        self.declined: list[Any] = []
        self.batches: list[Any] = []
        self.deliveries: list[Any] = []
        self.called: list[str] = []
        self.kernel = kernel
        self.appender = kernel.Appender(
            self._decline,
            self.tracker,
            lambda: self.now_ns,
            batch_size=BATCH_SIZE,
            memory_limit=LIMIT,
        )

    def _decline(self, *arguments: Any) -> str:
        self.declined.append((*arguments[:6], arguments[6] is not None))
        return "declined"

    def _hear(self, delivery: Any) -> None:
        self.called.append(repr(delivery))
        if delivery.batch_and_index[1] % 3 == 2:
            raise RuntimeError("no")

    def _failed(self, delivery: Any) -> None:
        self.called.append(f"{delivery!r}: {sys.exception()!r}")

    def step(self, name: str, *arguments: Any) -> Any:
        """Run one step, and return its result in a form that can be compared."""
        result = outcome_of(getattr(self, f"_do_{name}"), *arguments)
        if type(result) is self.kernel.Delivery:
            self.deliveries.append(result)
            batch, index = result.batch_and_index
            result = ("delivery", self.batches.index(batch), index, hash(result) is not None)
        return result

    def state(self) -> Any:
        """Return the whole state that can be seen from outside."""
        return (
            self.appender.used_memory,
            self.appender.topics(),
            [
                (
                    self.appender.partition_count(topic),
                    self.appender.sticky_partition(topic),
                    self.appender.sticky_bytes(topic),
                )
                for topic in TOPICS
            ],
            [
                (
                    batch.topic,
                    batch.partition,
                    batch.count,
                    batch.size,
                    bytes(batch.payload()),
                    batch.base_timestamp,
                    batch.max_timestamp,
                    batch.charged,
                    batch.sealed,
                    batch.done,
                    batch.created,
                )
                for batch in self.batches
            ],
            [
                (repr(one), one.done(), one.topic, one.partition, outcome_of(one.result, 0))
                for one in self.deliveries
                if not one.done() or one.batch_and_index[1] % 2
            ],
            [str(one.exception(0)) for one in self.deliveries if one.done()],
            self.tracker.unseen_so_far,
            self.called,
            self.declined,
        )

    def _do_send(self, *arguments: Any, **options: Any) -> Any:
        return self.appender.send(*arguments, **options)

    def _do_send_heard(self, *arguments: Any) -> Any:
        return self.appender.send(*arguments, on_delivery=self._hear)

    def _do_append(self, topic: str, partition: int, value: Any, key: Any, headers: Any, limit: int) -> Any:
        return self.appender.append(topic, partition, value, key, 1_700_000_000_500, headers, None, limit)

    def _do_append_many(self, *arguments: Any) -> Any:
        count, runs = self.kernel.append_many(self.appender, *arguments)
        return count, [(self.batches.index(batch), *run) for batch, *run in runs]

    def _do_know(self, topic: str, partitions: int) -> None:
        self.appender.set_partitions(topic, partitions)

    def _do_forget(self, topic: str) -> None:
        self.appender.remove_topic(topic)

    def _do_stick(self, topic: str, partition: int) -> None:
        self.appender.set_sticky_partition(topic, partition)

    def _do_open(self, topic: str, partition: int) -> bool:
        batch = self.appender.begin_batch(topic, partition, 12.5)
        if batch is not None:
            self.batches.append(batch)
        return batch is not None

    def _do_take(self, index: int) -> Any:
        if not self.batches:
            return None
        batch = self.batches[index % len(self.batches)]
        self.appender.seal_batch(batch)
        return bytes(batch.payload())

    def _do_settle(self, index: int, cut: int, failed: bool) -> Any:
        if not self.batches:
            return None
        batch = self.batches[index % len(self.batches)]
        if batch.done or not batch.count:
            return None
        self.appender.seal_batch(batch)
        cut %= batch.count
        if cut:
            batch.report(cut, batch.count, 100, -1, None)
        listeners = batch.report(0, cut or batch.count, 7, 55, KafkaError("no luck") if failed else None)
        heard = len(listeners)
        self.kernel.call_back(listeners, self._failed)
        self.appender.release_memory(batch.charged)
        return heard

    def _do_shrink(self, topic: str, size: int) -> None:
        self.appender.limit_batch_size(topic, size)

    def _do_limit(self, limit: int) -> None:
        self.appender.memory_limit = limit

    def _do_pass(self, milliseconds: int) -> None:
        self.now_ns += milliseconds * 1_000_000

    def _do_shut(self) -> None:
        self.appender.shut()


topics = st.sampled_from(TOPICS)
partitions = st.integers(-1, 4)
plain_bytes = st.none() | st.binary(max_size=40) | st.integers(100, 700).map(bytes)
odd = st.sampled_from(["text", 5, bytearray(b"x"), 1.5, True, (), 1 << 70, -(1 << 70)])
checked = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)
pairs = (
    st.none()
    | checked
    | st.sampled_from(
        [[("n", bytearray(b"v"))], [("n", 5)], [(b"n", b"v")], [("\ud800", b"")], 5, [["n", b"v"]]]
    )
)
columns = [
    st.binary(max_size=90) | plain_bytes | odd,
    st.binary(max_size=9) | plain_bytes | odd,
    st.none() | checked | pairs,
    st.none() | st.integers(0, 9) | odd,
]
verbs = st.sampled_from(["send", "send", "send_heard"])
good: list[st.SearchStrategy[Any]] = [
    verbs,
    topics,
    plain_bytes,
    plain_bytes,
    st.none() | st.integers(0, 2),
    st.none() | st.integers(0, 9) | st.integers(0, INT64),
    st.none() | checked,
]
sends = st.tuples(*good)
odd_sends = st.integers(1, 6).flatmap(
    lambda at: st.tuples(
        *good[:at], [topics | odd, odd, odd, partitions | odd, odd, pairs][at - 1], *good[at + 1 :]
    )
)
steps = st.one_of(
    sends,
    sends,
    sends,
    sends,
    odd_sends,
    st.tuples(
        st.just("append"), topics, st.integers(0, 4), plain_bytes, plain_bytes, checked, st.integers(0, LIMIT)
    ),
    st.tuples(
        st.just("append_many"),
        topics,
        st.integers(-1, 3),
        *[st.lists(each, max_size=9) for each in columns[:1]],
        *[st.none() | st.lists(each, min_size=5, max_size=9) for each in columns[1:]],
        st.none() | partitions | st.lists(st.none() | partitions, min_size=5, max_size=9),
    ),
    st.tuples(st.just("know"), topics, st.integers(1, 4)),
    st.tuples(st.just("forget"), topics),
    st.tuples(st.just("stick"), topics, st.integers(0, 5)),
    st.tuples(st.just("open"), topics, st.integers(0, 4)),
    st.tuples(st.just("take"), st.integers(0, 9)),
    st.tuples(st.just("settle"), st.integers(0, 9), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("shrink"), topics, st.integers(50, 1000)),
    st.tuples(st.just("limit"), st.sampled_from([0, 3000, LIMIT])),
    st.tuples(st.just("pass"), st.integers(-5, 5)),
)
BEGIN: Final = [("know", "clicks", 3), ("open", "clicks", 0), ("open", "clicks", 1), ("know", "views", 1)]


@settings(deadline=None, max_examples=300)
@given(st.lists(steps, min_size=8, max_size=50), st.booleans())
def test_any_course_of_things_is_the_same(course: list[tuple[Any, ...]], ends_shut: bool) -> None:
    python, compiled = (Bench(kernel) for kernel in KERNELS)
    for step in [*BEGIN, *course, *([("shut",), ("send", "clicks", b"x")] if ends_shut else [])]:
        assert python.step(*step) == compiled.step(*step)
    assert python.state() == compiled.state()


class TestEach:
    def test_arguments_go_by_position_or_by_name_and_are_declined_as_they_came(self, kernel: Any) -> None:
        bench = Bench(kernel)
        bench.appender.send(topic="t", value=b"v", headers=[], on_delivery=None)
        bench.appender.send("t", b"v", b"k", 1, 2, [("h", b"")], print)
        assert bench.declined == [
            ("t", b"v", None, None, None, [], False),
            ("t", b"v", b"k", 1, 2, [("h", b"")], True),
        ]

    def test_a_clock_that_raises_is_heard_and_nothing_is_appended(self, kernel: Any) -> None:
        def broken() -> int:
            raise RuntimeError("the clock is broken")

        appender = kernel.Appender(print, Tracker(), broken, batch_size=100, memory_limit=9999)
        appender.set_partitions("t", 1)
        batch = appender.begin_batch("t", 0, 0.0)
        with pytest.raises(RuntimeError, match="the clock is broken"):
            appender.send("t", b"v")
        with pytest.raises(RuntimeError, match="the clock is broken"):
            kernel.append_many(appender, "t", 0, [b"v"])
        assert batch.count == 0

    def test_a_clock_that_sends_loses_nothing(self, kernel: Any) -> None:
        """Code of the user that runs in the middle of a ``send`` may call ``send`` too."""

        def sending() -> int:
            if not batch.count:
                appender.send("t", b"inner", timestamp_ms=5)
            return 9_000_000

        appender = kernel.Appender(print, Tracker(), sending, batch_size=100, memory_limit=9999)
        appender.set_partitions("t", 1)
        batch = appender.begin_batch("t", 0, 0.0)
        appender.send("t", b"outer")
        records = kernel.parse_records(batch.payload(), 2, 0, 1, batch.base_timestamp)
        assert (records.values, records.timestamps) == ([b"inner", b"outer"], [5, 9])

    def test_headers_with_code_of_their_own_are_declined_before_it_runs(self, kernel: Any) -> None:
        class Loud(list[Any]):
            def __len__(self) -> int:
                raise AssertionError("nobody should ask")

        bench = Bench(kernel)
        bench.appender.set_partitions("t", 1)
        bench.step("open", "t", 0)
        for headers in (Loud(), [Loud()], iter([("n", b"v")]), {"n": b"v"}):
            assert bench.appender.send("t", b"v", headers=headers) == "declined"

    @pytest.mark.parametrize("spare", [-1, 0, 1])
    def test_batches_and_memory_are_full_to_the_byte(self, kernel: Any, spare: int) -> None:
        size = len(kernel.encode_record(0, 0, None, b"value"))
        for batch_size, limit in ((2 * size + spare, LIMIT), (LIMIT, BATCH_COST + 2 * size + spare)):
            appender = kernel.Appender(
                lambda *_: None, Tracker(), lambda: 0, batch_size=batch_size, memory_limit=limit
            )
            appender.set_partitions("t", 1)
            batch = appender.begin_batch("t", 0, 0.0)
            for _ in range(3):
                appender.send("t", b"value")
            assert batch.count == (1 if spare < 0 else 2)

    def test_what_is_kept_of_a_batch_may_outlive_it(self, kernel: Any) -> None:
        bench = Bench(kernel)
        bench.appender.set_partitions("t", 1)
        bench.step("open", "t", 0)
        delivery = bench.appender.send("t", b"v")
        batch = bench.batches.pop()
        del bench
        batch.sealed = True
        payload = memoryview(batch.payload())
        batch.report(0, 1, 41, -1, None)
        del batch
        assert delivery.result().offset == 41
        assert bytes(payload[-2:]) == b"v\x00"

    def test_deliveries_compare_by_batch_and_place(self, kernel: Any) -> None:
        bench = Bench(kernel)
        bench.appender.set_partitions("t", 1)
        bench.step("open", "t", 0)
        one, two = bench.appender.send("t", b"v"), bench.appender.send("t", b"v")
        again = kernel.Delivery(*one.batch_and_index, 0)
        assert one == again != two
        assert len({one, again, two}) == 2
        assert one != 5

    def test_deliveries_that_are_done_pickle_without_naming_a_kernel(self, kernel: Any) -> None:
        bench = Bench(kernel)
        bench.appender.set_partitions("t", 1)
        bench.step("open", "t", 0)
        one = bench.appender.send("t", b"v")
        with pytest.raises(TypeError, match="without a result cannot be pickled"):
            pickle.dumps(one)
        bench.batches[0].report(0, 1, 41, -1, None)
        pickled = pickle.dumps(one)
        assert b"_py" not in pickled
        assert b"_kernel" not in pickled
        assert pickle.loads(pickled).result() == one.result()
        assert kernel.Delivery.__module__ == "pyklient.kernel"

    def test_one_that_is_not_confirmed_in_time_says_so(self, kernel: Any) -> None:
        bench = Bench(kernel)
        bench.appender.set_partitions("t", 1)
        bench.step("open", "t", 0)
        delivery = bench.appender.send("t", b"v")
        with pytest.raises(KafkaTimeoutError, match=r"a record to t-0 was not confirmed within 0\.1 s"):
            delivery.result(0.1)

    def test_threads_that_send_at_once_lose_nothing(self, kernel: Any) -> None:
        appender = kernel.Appender(
            lambda *given: None, Tracker(), lambda: 0, batch_size=1 << 24, memory_limit=1 << 30
        )
        appender.set_partitions("t", 2)
        batches = [appender.begin_batch("t", number, 0.0) for number in range(2)]

        def send(number: int) -> None:
            for index in range(2000):
                appender.send("t", b"%d:%d" % (number, index), b"k" if index % 2 else None)

        threads = [threading.Thread(target=send, args=(number,), daemon=True) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)
        values = []
        for batch in batches:
            if batch.count:
                records = kernel.parse_records(batch.payload(), batch.count, 0, batch.count - 1, 0)
                values += records.values
        assert len(values) == len(set(values)) == 8000
        assert appender.used_memory == sum(batch.charged for batch in batches)


def test_a_closed_batch_takes_nothing_even_where_it_is_still_to_be_found() -> None:
    """Another thread may seal a batch just before this one appends to it. In Python a lock prevents that."""
    bench = Bench(COMPILED)
    bench.appender.set_partitions("t", 1)
    bench.step("open", "t", 0)
    bench.batches[0].sealed = True
    assert bench.appender.send("t", b"v") == "declined"
    assert COMPILED.append_many(bench.appender, "t", 0, [b"v"]) == (0, [])


def test_the_clock_of_the_system_is_read_the_same() -> None:
    import time

    for kernel in (PYTHON, COMPILED):
        appender = kernel.Appender(print, Tracker(), time.time_ns, batch_size=100, memory_limit=9999)
        appender.set_partitions("t", 1)
        batch = appender.begin_batch("t", 0, 0.0)
        before = time.time_ns() // 1_000_000
        appender.send("t", b"v")
        assert before <= batch.base_timestamp <= time.time_ns() // 1_000_000

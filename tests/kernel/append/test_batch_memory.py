"""A batch uses the memory of an earlier batch again when nothing refers to that memory."""

import gc
import random
import resource
from collections.abc import Iterator
from typing import Any, NamedTuple

from pyklient.kernel import read_records
from pyklient.producer.deliver.batch_compression import compress_batch
from pyklient.producer.delivery_tracker import DeliveryTracker
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.protocol.records import Compression, batch_header, iter_batches
from tests.kernel.kernels import COMPILED
from tests.run.seed import dice

SIZES = (100, 5_000, 40_000, 300_000, 1_000_000)


class Held(NamedTuple):
    """A payload that is still in use, the number of its records, and their values."""

    payload: Any
    size: int
    values: list[bytes]

    def is_intact(self) -> bool:
        header = batch_header(self.payload, count=self.size, base_timestamp=0, max_timestamp=0)
        (decoded,) = iter_batches(b"".join((header, self.payload)))
        decoded.verify()
        return [record.value for record in read_records(decoded)] == self.values


class Line:
    """A sequence of batches, one after the other."""

    def __init__(self, kernel: Any) -> None:
        tracker = DeliveryTracker(SenderThread("pyklient-producer test"))
        self.appender = kernel.Appender(
            lambda *_: None, tracker, lambda: 0, batch_size=1_000_000, memory_limit=1 << 40
        )
        self.appender.set_partitions("t", 1)

    def batch(self, values: list[bytes]) -> Any:
        batch = self.appender.begin_batch("t", 0, 0.0)
        for value in values:
            assert self.appender.send("t", value) is not None
        self.appender.seal_batch(batch)
        return batch


def values_of(chance: random.Random) -> Iterator[bytes]:
    size = chance.choice(SIZES) - 100
    length = chance.choice((50, 3_000))
    mark = chance.randbytes(8)
    for number in range(max(size // (length + 20), 1)):
        yield mark + b"%0*d" % (min(length, max(size, 1)), number)


def test_what_a_request_refers_to_is_not_written_over(kernel: Any) -> None:
    chance = dice("requests")
    line = Line(kernel)
    held: list[Held] = []
    unfinished: list[Any] = []
    for _ in range(400):
        values = list(values_of(chance))
        batch = line.batch(values)
        sealed = compress_batch(batch, Compression.NONE)
        kind = chance.randrange(4)
        # a request under way (its view alone, as sendmsg holds it), one that goes again, and one that nobody
        # keeps; they are done, or expire, before or after that
        if kind == 0:
            held.append(Held(memoryview(sealed.payload)[:], batch.count, values))
        elif kind == 1:
            held.append(Held(sealed.payload, batch.count, values))
        elif kind == 2:
            unfinished.append(batch)
            held.append(Held(batch.payload(), batch.count, values))
        del sealed
        if kind != 2:
            batch.report(0, batch.count, -1, -1, None)
        if len(unfinished) > 5:
            one = unfinished.pop(chance.randrange(len(unfinished)))
            one.report(0, one.count, 7, -1, None)
        if len(held) > 12:
            assert held.pop(chance.randrange(len(held))).is_intact()
    assert all(each.is_intact() for each in held)


def test_a_payload_stays_as_it_is_where_its_batch_goes_on() -> None:
    line = Line(COMPILED)  # a bytearray would refuse to grow while it is looked at
    batch: Any = line.appender.begin_batch("t", 0, 0.0)
    seen = []
    for number in range(300):
        line.appender.send("t", b"%03d" % number * 1_000)
        payload = batch.payload()
        seen.append((payload, bytes(payload[:100]), bytes(payload[-100:]), batch.size))
    for payload, start, end, size in seen:
        assert (len(payload), bytes(payload[:100]), bytes(payload[-100:])) == (size, start, end)


def test_a_batch_that_has_let_go_takes_nothing_and_has_no_bytes(kernel: Any) -> None:
    line = Line(kernel)
    batch = line.batch([b"x" * 1_000])
    batch.report(0, 1, -1, -1, None)
    assert bytes(batch.payload()) == b""
    assert line.appender.send("t", b"x") is None


def test_filling_batch_after_batch_touches_no_new_memory() -> None:
    line = Line(COMPILED)
    values = [b"v" * 1_000] * 900

    def fill(times: int) -> int:
        before = resource.getrusage(who).ru_minflt
        for _ in range(times):
            batch = line.batch(values)
            compress_batch(batch, Compression.NONE)
            batch.report(0, batch.count, -1, -1, None)
        return resource.getrusage(who).ru_minflt - before

    who = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)
    gc.collect()
    fill(5)
    pages_of_one = 900_000 // resource.getpagesize()
    assert fill(50) < 5 * pages_of_one


def test_a_batch_that_is_compressed_does_not_keep_its_records_beside_that(kernel: Any) -> None:
    batch = Line(kernel).batch([bytes(1_000)] * 100)
    assert len(batch.payload()) > 100_000
    sealed = compress_batch(batch, Compression.GZIP)
    assert len(sealed.payload) < 10_000
    assert len(batch.payload()) == 0

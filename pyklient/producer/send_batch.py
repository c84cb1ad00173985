"""Sends the batches of a mirror: they were fetched from another cluster, and their records are not
changed."""

from pyklient.kernel import Appender, Batch
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.accumulate.forwarded_batch import ForwardedBatch
from pyklient.protocol.records import RecordBatch

__all__ = ["send_batch"]


def send_batch(
    accumulator: RecordAccumulator, topic: str, partition: int, source: RecordBatch
) -> Batch | None:
    """Send the records of *source*, a batch of record format 2, as one batch. Return the new batch, or None
    if the options of the producer do not allow such a large batch.

    The records follow all records that were sent to the partition earlier. Waits for memory and metadata, and
    raises errors, as ``Producer.send`` does.
    """
    accumulator.raise_if_held()
    limits, clocks, appender = accumulator.limits, accumulator.clocks, accumulator.appender
    if not limits.holds_batch(source.size):
        return None
    accumulator.start()
    deadline = clocks.monotonic() + limits.max_block
    count = appender.partition_count(topic)
    if not count:
        count = accumulator.topics.wait(topic, deadline)
        appender.set_partitions(topic, count)
    accumulator.choice.choose(topic, None, partition, count, deadline)
    _wait_for_memory(accumulator, topic, source.size + Appender.OVERHEAD, deadline)
    now = clocks.monotonic()
    with accumulator.tracker.lock:
        accumulator.raise_if_held()
        if (current := appender.current_batch(topic, partition)) is not None:
            accumulator.sealer.seal_early(current)
        batch = ForwardedBatch(accumulator.tracker, topic, partition, now, source)
        accumulator.add_new_batch(batch)
        appender.release_memory(-batch.charged)
    accumulator.thread.notify(now)
    return batch


def _wait_for_memory(accumulator: RecordAccumulator, topic: str, needed: int, deadline: float) -> None:
    """Wait until *needed* bytes of memory are free, or no batch is unfinished. Raises BufferFullError if the
    wait has not ended by *deadline*."""
    while accumulator.appender.used_memory + needed > accumulator.limits.buffer_memory:
        accumulator.send_open_batches()
        oldest = accumulator.oldest_unfinished()
        if oldest is None:
            return
        now = accumulator.clocks.monotonic()
        if now >= deadline or not accumulator.tracker.wait(oldest, deadline - now):
            raise accumulator.limits.buffer_full(topic, "no memory was released in time")

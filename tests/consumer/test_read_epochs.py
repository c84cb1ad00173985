"""Leader epochs of what a stream has read: which batches have which, and which is committed."""

from typing import Any

import pytest

from pyklient.consumer.read_epochs import UNKNOWN_EPOCH, ReadEpochs
from pyklient.kernel.decode.batch_runs import BatchRun
from pyklient.protocol.records.message_set import encode_set
from pyklient.topic_partition import TopicPartition
from tests.consumer.stream.bench import batch

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)


def run(*epochs: int) -> tuple[bytes, list[int]]:
    """Return batches of two records with these leader epochs, and the bytes at which they end."""
    parts = [batch("a", "b", base=2 * at, partition_leader_epoch=each) for at, each in enumerate(epochs)]
    return b"".join(parts), [sum(map(len, parts[: at + 1])) for at in range(len(parts))]


def test_batches_of_one_leader_epoch_stay_together(kernel: Any) -> None:
    data, ends = run(4, 4, 4)
    assert kernel.whole_batches(memoryview(data)) == [BatchRun(0, ends[2], 6, 4)]
    assert kernel.whole_batches(memoryview(data)[:-1]) == [BatchRun(0, ends[1], 4, 4)]
    assert kernel.whole_batches(memoryview(data)[:50]) == []


def test_batches_are_divided_where_the_leader_epoch_grows(kernel: Any) -> None:
    data, ends = run(4, 4, 6, 7, 7)
    assert kernel.whole_batches(memoryview(data)) == [
        BatchRun(0, ends[1], 4, 4),
        BatchRun(ends[1], ends[2], 6, 6),
        BatchRun(ends[2], ends[4], 10, 7),
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_the_old_formats_have_no_leader_epoch(magic: int, kernel: Any) -> None:
    old = encode_set([(0, None, b"a"), (0, None, b"b")], [0, 1], magic)
    new = batch("c", base=2, partition_leader_epoch=3)
    assert kernel.whole_batches(memoryview(old)) == [BatchRun(0, len(old), 2, UNKNOWN_EPOCH)]
    assert kernel.whole_batches(memoryview(old + new)) == [
        BatchRun(0, len(old), 2, UNKNOWN_EPOCH),
        BatchRun(len(old), len(old + new), 3, 3),
    ]


def test_the_epoch_of_an_offset_is_that_of_the_record_before_it() -> None:
    epochs = ReadEpochs()
    epochs.note(T0, 10, 15, 3)
    epochs.note(T0, 15, 20, 3)
    epochs.note(T0, 20, 30, 5)
    assert [epochs.before(T0, offset) for offset in (11, 20, 21, 30)] == [3, 3, 5, 5]
    assert [epochs.before(T0, offset) for offset in (10, 31, 0)] == [UNKNOWN_EPOCH] * 3, "never read"
    assert epochs.before(T1, 11) == UNKNOWN_EPOCH
    epochs.forget(T0)
    assert epochs.before(T0, 11) == UNKNOWN_EPOCH


def test_what_is_read_last_counts() -> None:
    epochs = ReadEpochs()
    epochs.note(T0, 0, 10, 3)
    epochs.note(T0, 10, 20, 4)
    epochs.note(T0, 5, 8, 7)  # the log was cut off at 5 and written again
    assert [epochs.before(T0, offset) for offset in (5, 6, 8, 9, 15)] == [3, 7, 7, -1, -1]
    for start in range(100):
        epochs.note(T0, start, start + 1, start)
    assert [epochs.before(T0, offset) for offset in (100, 95, 10)] == [99, 94, UNKNOWN_EPOCH], "it is bounded"

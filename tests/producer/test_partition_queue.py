"""One partition's batches: how far what is confirmed may run ahead of what is not."""

from itertools import count

from pyklient.errors import BrokerConnectionError
from pyklient.model import TopicPartition
from pyklient.producer.batch import ProducerBatch
from pyklient.producer.delivery import DeliveryTracker
from pyklient.producer.idempotence import Sequences
from pyklient.producer.partition_queue import PartitionQueue
from pyklient.protocol.records import Compression
from pyklient.protocol.records.kernel import Batch

REMEMBERED = 5


class Bench:
    """A queue with any number of batches of one record, due at once."""

    def __init__(self, batches: int) -> None:
        sequences = Sequences()
        sequences.adopt(7, 0)
        self.queue = PartitionQueue(
            TopicPartition("clicks", 0),
            sequences,
            linger=0.0,
            patience=60.0,
            seal=lambda batch: ProducerBatch(batch, 0, 1, b"r", Compression.NONE, (0, 0)),
        )
        tracker = DeliveryTracker(lambda: False)
        for _ in range(batches):
            self.queue.add(Batch(tracker, "clicks", 0, 0.0))

    def take(self) -> ProducerBatch:
        batch = self.queue.take()
        assert batch is not None
        return batch

    def take_all(self) -> list[ProducerBatch]:
        """What may go at once."""
        taken = []
        while self.queue.ready(1.0):
            taken.append(self.take())
        return taken

    def lose(self, batch: ProducerBatch) -> None:
        """Its answer has been lost."""
        self.queue.failed(batch, BrokerConnectionError("cut"), in_doubt=True, rest_until=0.0)


def test_the_first_of_a_sequence_goes_alone_and_then_as_many_as_a_broker_remembers() -> None:
    bench = Bench(20)
    (first,) = bench.take_all()
    bench.queue.stored(first)
    assert len(bench.take_all()) == REMEMBERED


def test_nothing_new_pushes_one_in_doubt_out_of_the_brokers_memory() -> None:
    bench = Bench(20)
    bench.queue.stored(bench.take())
    oldest, *others = bench.take_all()
    for batch in others:  # on another connection, which was quicker
        bench.queue.stored(batch)
    assert bench.take_all() == []
    for _ in count(1):
        bench.lose(oldest)
        assert bench.take_all() == [oldest]
        if oldest.attempts > REMEMBERED:
            break
    bench.queue.stored(oldest)
    assert len(bench.take_all()) == REMEMBERED

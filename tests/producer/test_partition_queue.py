"""One partition's parcels: how far what is confirmed may run ahead of what is not."""

from itertools import count
from threading import Lock

from pyklient.errors import BrokerConnectionError
from pyklient.model import TopicPartition
from pyklient.producer.batch import Parcel
from pyklient.producer.delivery import Ledger
from pyklient.producer.idempotence import Sequences
from pyklient.producer.partition_queue import Lane
from pyklient.protocol.records import Compression
from pyklient.protocol.records.kernel import Batch

REMEMBERED = 5


class Bench:
    """A lane with any number of batches of one record, due at once."""

    def __init__(self, batches: int) -> None:
        sequences = Sequences()
        sequences.adopt(7, 0)
        self.lane = Lane(
            TopicPartition("clicks", 0),
            sequences,
            linger=0.0,
            patience=60.0,
            seal=lambda batch: Parcel(batch, 0, 1, b"r", Compression.NONE, (0, 0)),
        )
        ledger = Ledger(Lock(), lambda: False)
        for _ in range(batches):
            self.lane.add(Batch(ledger, "clicks", 0, 0.0))

    def take(self) -> Parcel:
        parcel = self.lane.take()
        assert parcel is not None
        return parcel

    def take_all(self) -> list[Parcel]:
        """What may go at once."""
        taken = []
        while self.lane.ready(1.0):
            taken.append(self.take())
        return taken

    def lose(self, parcel: Parcel) -> None:
        """Its answer has been lost."""
        self.lane.failed(parcel, BrokerConnectionError("cut"), in_doubt=True, rest_until=0.0)


def test_the_first_of_a_sequence_goes_alone_and_then_as_many_as_a_broker_remembers() -> None:
    bench = Bench(20)
    (first,) = bench.take_all()
    bench.lane.stored(first)
    assert len(bench.take_all()) == REMEMBERED


def test_nothing_new_pushes_one_in_doubt_out_of_the_brokers_memory() -> None:
    bench = Bench(20)
    bench.lane.stored(bench.take())
    oldest, *others = bench.take_all()
    for parcel in others:  # on another connection, which was quicker
        bench.lane.stored(parcel)
    assert bench.take_all() == []
    for _ in count(1):
        bench.lose(oldest)
        assert bench.take_all() == [oldest]
        if oldest.attempts > REMEMBERED:
            break
    bench.lane.stored(oldest)
    assert len(bench.take_all()) == REMEMBERED

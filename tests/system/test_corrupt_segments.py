"""Consumers of a broker whose segment files were damaged: they skip what cannot be read, and nothing else."""

from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from pyklient import CorruptRecords, Producer, TopicPartition
from pyklient.protocol.records import iter_batches
from pyklient.protocol.records.layout import BATCH_SIZE, MAGIC_AT
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed
from tests.servers.kafka import KraftCluster
from tests.servers.reference import ReferenceBroker
from tests.servers.server import Server
from tests.system.reading import connector, read_group

pytestmark = pytest.mark.brokers(min="4.3", zookeeper=False)

_EACH: Final = 5
"""The number of records in a batch."""
_LAST_DELTA_AT: Final = 23


def segment(broker: Server, topic: str) -> Path:
    if isinstance(broker, KraftCluster):
        data = broker.processes[1].directory / "data"
    else:
        assert isinstance(broker, ReferenceBroker)
        data = broker.data
    return data / f"{topic}-0" / f"{0:020}.log"


def produce(bootstrap: str, topic: str, batches: int) -> None:
    with Producer(bootstrap, linger_ms=10_000) as producer:
        for number in range(batches):
            for each in range(_EACH):
                producer.send(topic, b"%d" % (number * _EACH + each))
            producer.flush()


def damage(path: Path, changes: dict[int, tuple[int, int]]) -> None:
    """Change one byte in each of some batches. *changes* has the byte and the bits to flip, by the number of
    the batch."""
    sizes = [batch.size for batch in iter_batches(path.read_bytes())]
    with path.open("r+b") as file:
        for number, (at, bits) in changes.items():
            place = sum(sizes[:number]) + at % sizes[number]
            file.seek(place)
            before = file.read(1)[0]
            file.seek(place)
            file.write(bytes([before ^ bits]))


def test_a_group_reads_past_damaged_batches_and_commits_past_them(
    any_broker: Server, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, group = new_topic(), new_name()
    partition = TopicPartition(topic, 0)
    produce(bootstrap, topic, batches=12)
    changes = {2: (BATCH_SIZE + 3, 1), 3: (BATCH_SIZE + 3, 1), 5: (_LAST_DELTA_AT + 3, 2), 11: (-1, 1)}
    whole = [*changes]
    if isinstance(any_broker, KraftCluster):
        changes[8] = (MAGIC_AT, 1)  # a reference broker returns no bytes that are no batch
    damage(segment(any_broker, topic), changes)
    told: list[CorruptRecords] = []
    with connector(bootstrap, group, on_corrupt=told.append, enable_auto_commit=False) as reader:
        stream = reader.stream(topic)
        readable = [offset for offset in range(60) if offset // _EACH not in changes]
        assert [message.offset for message in islice(stream, len(readable))] == readable
        for batch in stream.batches(timeout=0.5):
            if stream.position(partition) == 60:
                break
            assert batch == []
        reader.commit_offsets()
        skipped = [(number * _EACH, number * _EACH + _EACH) for number in whole]
        if 8 in changes:
            skipped[-1:-1] = [(offset, offset + 1) for offset in range(40, 45)]
        assert [(each.first_offset, each.next_offset) for each in told] == skipped
        counts = reader.metrics().partitions[partition]
        assert (counts.corrupt_batches, counts.skipped_offsets) == (len(changes), len(changes) * _EACH)
    assert committed(bootstrap, group, topic) == {0: 60}
    produce(bootstrap, topic, batches=1)
    assert [message.offset for message in read_group(bootstrap, group, topic, _EACH)] == [*range(60, 65)]

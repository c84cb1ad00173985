"""The store of a group that moves its offsets, over two stores in memory."""

from collections.abc import Mapping

import pytest

from pyklient.consumer.commit.offset_storages.dual_offset_storage import DualOffsetStorage
from pyklient.consumer.commit.offset_storages.offset_storage import Rejections
from pyklient.consumer.owned_partitions import NOBODY, MemberIdentity, PartlyCommitted
from pyklient.errors import KafkaError, RegistryConnectionError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.group.by_hand import DictionaryStore

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Down(DictionaryStore):
    """A store that cannot be reached."""

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        raise RegistryConnectionError("down")

    def unreachable(self) -> KafkaError | None:
        return RegistryConnectionError("down")


def at(**offsets: int) -> dict[TopicPartition, OffsetAndMetadata]:
    names = {"zero": ZERO, "one": ONE}
    return {names[name]: OffsetAndMetadata(offset) for name, offset in offsets.items()}


def test_row_22_the_larger_offset_counts_with_the_metadata_in_kafka() -> None:
    """Dual commit with ZooKeeper at 120 and Kafka at 100 resumes at 120."""
    kafka = DictionaryStore({ZERO: OffsetAndMetadata(100, "k", 7), ONE: OffsetAndMetadata(200, "k", 7)})
    store = DualOffsetStorage(kafka, DictionaryStore(at(zero=120, one=120)))
    assert store.fetch([ZERO, ONE], 1.0) == {
        ZERO: OffsetAndMetadata(120, "k"),
        ONE: OffsetAndMetadata(200, "k", 7),
    }


def test_an_offset_in_one_store_alone_counts() -> None:
    store = DualOffsetStorage(DictionaryStore(at(zero=0)), DictionaryStore(at(one=0)))
    assert store.fetch([ZERO, ONE], 1.0) == at(zero=0, one=0)
    assert DualOffsetStorage(DictionaryStore(), DictionaryStore()).fetch([ZERO], 1.0) == {ZERO: None}


def test_an_offset_that_the_stores_do_not_share_is_partly_committed() -> None:
    for kafka, zookeeper, partly in [
        ({}, at(zero=0), True),
        (at(zero=1), {}, True),
        (at(zero=1), at(zero=1), False),
        (at(zero=1), at(zero=2), True),
        (at(zero=2), at(zero=1), True),
    ]:
        found = DualOffsetStorage(DictionaryStore(kafka), DictionaryStore(zookeeper)).fetch([ZERO], 1.0)[ZERO]
        assert isinstance(found, PartlyCommitted) is partly


def test_row_23_a_commit_is_in_both_stores() -> None:
    """Kafka storage with dual commit writes both stores."""
    kafka, zookeeper = DictionaryStore(), DictionaryStore()
    store = DualOffsetStorage(kafka, zookeeper)
    assert store.commit(at(zero=3), NOBODY, 1.0) == {}
    sent = store.commit_async(at(one=4), NOBODY)
    assert sent is not None
    assert sent.result(0) == {}
    assert kafka.positions == zookeeper.positions == at(zero=3, one=4)


def test_what_kafka_rejects_is_not_written_to_zookeeper() -> None:
    zookeeper = DictionaryStore(at(zero=9))
    store = DualOffsetStorage(DictionaryStore(generation=2), zookeeper)
    (rejected,) = store.commit(at(zero=3), MemberIdentity(1, "removed"), 1.0).values()
    assert rejected.outdated
    assert zookeeper.positions == at(zero=9)


def test_a_position_counts_as_committed_only_if_both_stores_have_it() -> None:
    for store in (DualOffsetStorage(Down(), DictionaryStore()), DualOffsetStorage(DictionaryStore(), Down())):
        with pytest.raises(RegistryConnectionError):
            store.commit(at(zero=3), NOBODY, 1.0)
        assert store.commit_async(at(zero=3), NOBODY) is None
        assert isinstance(store.unreachable(), RegistryConnectionError)

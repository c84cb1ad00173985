"""The partitions that are chosen for messages without a key."""

from collections import Counter

import pytest

from pyklient import ClassicProducerConfig, DefaultPartitioner, KeyedMessage
from pyklient.classic.broker_partition_info import BrokerPartitionInfo
from pyklient.classic.collation import Collator
from pyklient.classic.default_event_handler import DefaultEventHandler
from pyklient.classic.message_encoding import MessageEncoder
from pyklient.classic.producer_pool import ProducerPool
from pyklient.errors import FailedToSendMessageError
from tests.classic.scripted_cluster import NOT_LEADER, Script, ScriptedCluster


def test_row_38_a_partition_without_a_leader_is_never_chosen() -> None:
    script = Script(name="leaders", batches=[], leaders=[{"t": [0, 1, 0, 2, 1]}])
    chosen: Counter[int] = Counter()
    with ScriptedCluster(script) as cluster:
        config = ClassicProducerConfig(metadata_broker_list=cluster.address)
        pool = ProducerPool(config)
        collator = Collator(DefaultPartitioner(), BrokerPartitionInfo(config, pool))
        two, _ = MessageEncoder(config).encode([KeyedMessage("t", b"a"), KeyedMessage("t", b"b")])
        one, _ = MessageEncoder(config).encode([KeyedMessage("t", b"c")])
        for _ in range(200):
            found = collator.collate(two)
            ((where, group),) = [item for groups in found.values() for item in groups.items()]
            assert len(group) == 2
            assert collator.collate(one).keys() == found.keys()
            chosen[where.partition] += 1
            collator.forget_choices()
        pool.close()
    assert set(chosen) == {1, 3, 4}


def test_a_retry_chooses_among_all_partitions_again() -> None:
    codes = dict.fromkeys(range(8), NOT_LEADER)
    script = Script(name="no leader", batches=[], leaders=[{"t": [1] * 8}], answers=[codes])
    with ScriptedCluster(script) as cluster:
        config = ClassicProducerConfig(
            metadata_broker_list=cluster.address,
            request_required_acks=1,
            message_send_max_retries=60,
            retry_backoff_ms=0,
        )
        handler = DefaultEventHandler(config)
        with pytest.raises(FailedToSendMessageError, match="after 60 retries"):
            handler.handle([KeyedMessage("t", b"a")])
        handler.close()
        partitions = {each.partition for _, _, sent in cluster.produced(61) for each in sent["t"]}
    assert len(partitions) > 4

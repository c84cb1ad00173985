"""Each kind of fault by itself, at a known request, in front of the reference broker."""

import itertools

import pytest

from pyklient import ConsumerConnector, Producer, read
from pyklient.protocol.messages import (
    FetchRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SyncGroupRequest,
)
from pyklient.protocol.schema import ApiMessage
from tests.servers.fixtures import NewName
from tests.servers.groups import committed
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic
from tools.faults.plan import FAULTS, Action, Fault, FaultPlan
from tools.faults.proxy import FaultProxy

pytestmark = pytest.mark.slow

_RECORDS = 200
_VALUES = [b"%d" % number for number in range(_RECORDS)]
_HELD = 0.6
_PATIENCE = 30


def _name(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


_OF_EACH_ACTION = [next(each for each in reversed(FAULTS) if each.action is action) for action in Action]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *itertools.product([ProduceRequest], FAULTS),
        *itertools.product([MetadataRequest, InitProducerIdRequest], _OF_EACH_ACTION),
    ],
    ids=_name,
)
def test_a_producer_delivers_each_record_once_and_in_order_through(
    reference_broker: ReferenceBroker, new_name: NewName, fault: Fault, kind: type[ApiMessage]
) -> None:
    topic = create_topic(reference_broker.bootstrap_servers, new_name())
    number = 3 if kind is ProduceRequest else 1
    with (
        FaultProxy(reference_broker.bootstrap_servers, _once(kind, number, fault)) as proxy,
        Producer(
            proxy.bootstrap_servers, batch_size=100, linger_ms=0, request_timeout_ms=400, retry_backoff_ms=20
        ) as producer,
    ):
        sent = [producer.send(topic, value) for value in _VALUES]
        assert [each.result(_PATIENCE).offset for each in sent] == list(range(_RECORDS))
        assert len(proxy.happened) == 1
    stored = [message.value for message in read(reference_broker.bootstrap_servers, topic, start=0)]
    assert stored == _VALUES


_DROP, _SILENCE = FAULTS[-2:]
_JOINING = [JoinGroupRequest, SyncGroupRequest, OffsetFetchRequest, ListOffsetsRequest, MetadataRequest]
_BELONGING = [FetchRequest, HeartbeatRequest, OffsetCommitRequest]


@pytest.mark.parametrize(
    ("kind", "fault"),
    [*itertools.product(_JOINING, [_SILENCE]), *itertools.product(_BELONGING, [_DROP, _SILENCE])],
    ids=_name,
)
def test_a_member_is_handed_each_record_through(
    reference_broker: ReferenceBroker, new_name: NewName, fault: Fault, kind: type[ApiMessage]
) -> None:
    topic, group = create_topic(reference_broker.bootstrap_servers, new_name()), new_name()
    with Producer(reference_broker.bootstrap_servers, batch_size=1_000) as producer:
        producer.send_many(topic, _VALUES)
    with (
        FaultProxy(reference_broker.bootstrap_servers, _once(kind, 1, fault)) as proxy,
        ConsumerConnector(
            proxy.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=50,
            heartbeat_interval_ms=50,
            rebalance_timeout_ms=500,
            request_timeout_ms=400,
            fetch_max_wait_ms=100,
            max_partition_fetch_bytes=1_000,
            consumer_timeout_ms=_PATIENCE * 1000,
        ) as connector,
    ):
        handed_out: list[bytes | None] = []
        for message in connector.stream(topic):
            handed_out.append(message.value)
            if set(handed_out) == set(_VALUES) and proxy.happened:
                break
            if message.offset == _RECORDS - 1:
                with Producer(reference_broker.bootstrap_servers) as producer:
                    producer.send(topic, b"one more")
    assert list(dict.fromkeys(handed_out))[:_RECORDS] == _VALUES
    assert len(proxy.happened) == 1
    assert committed(reference_broker.bootstrap_servers, group, topic)[0] <= len(handed_out)


def _once(kind: type[ApiMessage], number: int, fault: Fault) -> FaultPlan:
    if fault.action is Action.HOLD:
        fault = fault._replace(seconds=_HELD)
    return FaultPlan({kind: [(number, fault)]})

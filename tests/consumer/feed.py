"""Writes to topics of a reference broker and reads the committed offsets of groups, without a producer."""

import itertools
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from pyklient.broker import Broker
from pyklient.config import ClientConfig
from pyklient.consumer.commit.offset_storages.kafka_offset_storage import fetch_offsets
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.kernel import encode_batch
from pyklient.net.dialogue import CONTROLLER, Ask, Dialogue, Refresh
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import (
    CreatePartitionsRequest,
    DeleteTopicsRequest,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    ProduceRequest,
)
from pyklient.protocol.records import NewRecord, iter_batches
from pyklient.protocol.records.layout import LEADER_EPOCH_AT
from pyklient.topic_partition import TopicPartition

__all__ = ["Feed", "own_threads", "wait_for"]

_PATIENCE = 60.0
_numbers = itertools.count(1)


def wait_for(condition: Callable[[], Any], what: str) -> None:
    """Return when *condition* is true. Fail if that takes too long."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.01)


def own_threads() -> set[threading.Thread]:
    """Return the threads of pyklient's clients that run in this process."""
    running = threading.enumerate()
    return {each for each in running if each.name.startswith("pyklient") and "broker" not in each.name}


class Feed:
    """The operations on its broker that a test needs besides reading."""

    def __init__(self, broker: Broker) -> None:
        self.bootstrap_servers = broker.bootstrap_servers
        self._broker = broker
        config = ClientConfig.from_options({"bootstrap_servers": broker.bootstrap_servers})
        self._client = NetworkClient(config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def name(self) -> str:
        """Return a name that is not in use."""
        return f"n{next(_numbers)}"

    def topic(self, partitions: int = 1, *texts: str, name: str | None = None) -> str:
        """Create a topic with *texts* in its first partition. Return its name."""
        topic = name or self.name()
        self._broker.create_topic(topic, partitions=partitions)
        if texts:
            self.send(topic, texts)
        return topic

    def grow(self, topic: str, total: int) -> None:
        """Add partitions to *topic* until it has *total*."""
        wanted = CreatePartitionsRequest.CreatePartitionsTopic(name=topic, count=total)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=5000)
        response = self._client.play(_ask(CONTROLLER, request), _PATIENCE)
        assert [each.error_code for each in response.results] == [0]

    def delete(self, topic: str) -> None:
        """Delete *topic*."""
        request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000)
        response = self._client.play(_ask(CONTROLLER, request, max_version=5), _PATIENCE)
        assert [each.error_code for each in response.responses] == [0]
        self._client.forget_topics([topic])

    def send(self, topic: str, texts: Sequence[str | bytes], partition: int = 0, at: int = 0) -> None:
        """Append one batch of *texts*, with *at* as their timestamp."""
        values = [text.encode() if isinstance(text, str) else text for text in texts]
        self.append(topic, encode_batch([NewRecord(at, None, value, ()) for value in values]), partition)

    def append(self, topic: str, records: bytes, partition: int = 0) -> None:
        """Append *records*, which are one batch of any kind that a broker accepts."""
        data = ProduceRequest.TopicProduceData.PartitionProduceData(index=partition, records=records)
        request = ProduceRequest(
            acks=-1,
            timeout_ms=5000,
            topic_data=[ProduceRequest.TopicProduceData(name=topic, partition_data=[data])],
        )
        response = self._client.play(_produce(topic, partition, request), _PATIENCE)
        (answer,) = response.responses[0].partition_responses
        assert answer.error_code == 0

    def set_leader_epochs(self, topic: str, epochs: Sequence[int]) -> None:
        """Write the leader epochs of the batches of partition 0 into its segment file. No checksum covers
        them."""
        for batch, epoch in enumerate(epochs):
            self.overwrite(topic, batch, LEADER_EPOCH_AT, epoch.to_bytes(4, "big"))

    def overwrite(self, topic: str, batch: int, at: int, data: bytes) -> None:
        """Write *data* over byte *at* of batch number *batch* in the segment file of partition 0."""
        path = self._broker.data_dir / f"{topic}-0" / f"{0:020}.log"
        start = sum(each.size for each in [*iter_batches(path.read_bytes())][:batch])
        with path.open("r+b") as file:
            file.seek(start + at)
            file.write(data)

    def members(self, group: str) -> list[str]:
        """The ids of the members of *group*."""
        request = DescribeGroupsRequest(groups=[group])
        (described,) = self._client.play(_ask_coordinator(group, request), _PATIENCE).groups
        return [each.member_id for each in described.members]

    def remove(self, group: str, member_id: str) -> None:
        """Remove a member from *group*. The member learns of that in the response to its next heartbeat."""
        request = LeaveGroupRequest(
            group_id=group, members=[LeaveGroupRequest.MemberIdentity(member_id=member_id)]
        )
        response = self._client.play(_ask_coordinator(group, request), _PATIENCE)
        assert [each.error_code for each in response.members] == [0]

    def committed(self, group: str, topic: str, partitions: int = 1) -> list[int | None]:
        """Return the committed offset of *group* in each partition."""
        wanted = [TopicPartition(topic, partition) for partition in range(partitions)]
        coordinator = GroupCoordinatorClient(group)
        found = self._client.play(fetch_offsets(coordinator, wanted), _PATIENCE)
        return [None if (at := found[each]) is None else at.offset for each in wanted]


def _ask(to: int, request: Any, **limits: Any) -> Dialogue[Any]:
    return (yield Ask(to, request, **limits))


def _ask_coordinator(group: str, request: Any) -> Dialogue[Any]:
    node_id = yield from find_coordinator(group)
    return (yield Ask(node_id, request))


def _produce(topic: str, partition: int, request: ProduceRequest) -> Dialogue[Any]:
    metadata = yield Refresh([topic])
    leader = metadata.leader(TopicPartition(topic, partition))
    return (yield Ask(leader.id, request, max_version=12))

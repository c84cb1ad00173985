"""A client that sends the requests of a transactional producer, one at a time."""

from typing import Any

from pyklient.kernel import encode_batch
from pyklient.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from pyklient.protocol.records import NewRecord
from tests.broker.wire_client import WireClient

Identity = tuple[int, int]


class Transactions:
    """Sends the requests of a transactional producer in versions that the test chooses.

    It writes to partition 0 of *topic*, and commits offsets of *group*.
    """

    def __init__(
        self,
        client: WireClient,
        transactional_id: str = "orders",
        *,
        topic: str = "clicks",
        group: str = "g",
    ) -> None:
        self.client = client
        self.transactional_id = transactional_id
        self._topic = topic
        self._group = group
        self._sequences: dict[Identity, int] = {}

    def init(
        self, expected: Identity = (-1, -1), *, timeout_ms: int = 60_000, version: int = 5
    ) -> tuple[int, Identity]:
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=expected[0],
            producer_epoch=expected[1],
        )
        answer = self.client.ask(request, InitProducerIdResponse, version)
        return answer.error_code, (answer.producer_id, answer.producer_epoch)

    def add(self, identity: Identity, *partitions: int, version: int = 3) -> list[int]:
        asked = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(
            name=self._topic, partitions=list(partitions)
        )
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=[asked],
        )
        [answer] = self.client.ask(request, AddPartitionsToTxnResponse, version).results_by_topic_v3_and_below
        codes = {each.partition_index: each.partition_error_code for each in answer.results_by_partition}
        return [codes[index] for index in partitions]

    def send(
        self, identity: Identity, *, version: int = 12, transactional_id: str | None = "", value: bytes = b"v"
    ) -> tuple[int, int]:
        """Produce one record. Return the error code and the offset."""
        sequence = self._sequences.get(identity, 0)
        batch = encode_batch(
            [NewRecord(1000, None, value)],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequence,
            transactional=True,
        )
        data = ProduceRequest.PartitionProduceData(index=0, records=batch)
        request = ProduceRequest(
            transactional_id=self.transactional_id if transactional_id == "" else transactional_id,
            acks=-1,
            timeout_ms=10_000,
            topic_data=[ProduceRequest.TopicProduceData(name=self._topic, partition_data=[data])],
        )
        answer = self.client.ask(request, ProduceResponse, version).responses[0].partition_responses[0]
        if not answer.error_code:
            self._sequences[identity] = sequence + 1
        return answer.error_code, answer.base_offset

    def end(self, identity: Identity, *, commit: bool = True, version: int = 5) -> tuple[int, Identity]:
        request = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            committed=commit,
        )
        answer = self.client.ask(request, EndTxnResponse, version)
        return answer.error_code, (answer.producer_id, answer.producer_epoch)

    def add_group(self, identity: Identity) -> int:
        request = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=identity[0],
            producer_epoch=identity[1],
            group_id=self._group,
        )
        return self.client.ask(request, AddOffsetsToTxnResponse).error_code

    def commit_offset(self, identity: Identity, offset: int, *, version: int = 5, **member: Any) -> int:
        partition = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=self._group,
            producer_id=identity[0],
            producer_epoch=identity[1],
            topics=[
                TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name=self._topic, partitions=[partition])
            ],
            **member,
        )
        [topic] = self.client.ask(request, TxnOffsetCommitResponse, version).topics
        return topic.partitions[0].error_code

    def described(self) -> DescribeTransactionsResponse.TransactionState:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        [found] = self.client.ask(request, DescribeTransactionsResponse).transaction_states
        return found

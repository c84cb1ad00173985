"""Requests of tools about transactions (KIP-664)."""

from typing import Any

from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.handlers.test_transactions import last_stable_offset
from tests.broker.transactional_requests import Transactions
from tests.broker.wire_client import WireClient


def test_a_marker_of_a_tool_ends_a_hanging_transaction(transactions: Transactions) -> None:
    client = transactions.client
    _, producer = transactions.init()
    transactions.send(producer)
    request = DescribeProducersRequest(
        topics=[DescribeProducersRequest.TopicRequest(name="clicks", partition_indexes=[0, 9])]
    )

    def described() -> list[tuple[int, ...]]:
        known, unknown = client.ask(request, DescribeProducersResponse).topics[0].partitions
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return [
            (each.producer_id, each.producer_epoch, each.last_sequence, each.current_txn_start_offset)
            for each in known.active_producers
        ]

    assert described() == [(*producer, 0, 0)]
    topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name="clicks", partition_indexes=[0, 9])
    codes = []
    for epoch in (-1, 0):
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            producer_id=producer[0], producer_epoch=epoch, topics=[topic]
        )
        [answer] = client.ask(WriteTxnMarkersRequest(markers=[marker]), WriteTxnMarkersResponse, 1).markers
        codes.append([each.error_code for each in answer.topics[0].partitions])
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == [[ErrorCode.INVALID_PRODUCER_EPOCH, unknown], [0, unknown]]
    assert described() == [(*producer, 0, -1)]
    assert last_stable_offset(client) == 2


def test_transactions_are_listed_by_state_producer_duration_and_name(client: WireClient) -> None:
    producers = {}
    for name in ("a1", "a2", "b1"):
        _, producers[name] = Transactions(client, name).init()
    Transactions(client, "a1").add_group(producers["a1"])

    def listed(**filters: Any) -> list[str]:
        answer = client.ask(ListTransactionsRequest(**filters), ListTransactionsResponse)
        assert answer.error_code == 0
        return sorted(each.transactional_id for each in answer.transaction_states)

    assert listed() == ["a1", "a2", "b1"]
    assert listed(state_filters=["Ongoing"]) == ["a1"]
    assert listed(producer_id_filters=[producers["b1"][0]]) == ["b1"]
    assert listed(duration_filter=1 << 50) == []
    assert listed(transactional_id_pattern="a.*") == ["a1", "a2"]
    unknown = client.ask(ListTransactionsRequest(state_filters=["Odd"]), ListTransactionsResponse)
    assert (unknown.unknown_state_filters, unknown.transaction_states) == (["Odd"], [])
    invalid = client.ask(ListTransactionsRequest(transactional_id_pattern="("), ListTransactionsResponse)
    assert invalid.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION

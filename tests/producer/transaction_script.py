"""A broker that stores what is produced, and coordinates transactions as the test says."""

from collections import deque
from typing import Any

from pyklient.error_codes import ErrorCode
from pyklient.producer.producer import Producer
from pyklient.protocol.messages import (
    REQUESTS,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from pyklient.protocol.schema import ApiMessage
from tests.producer.script import ProduceBroker

__all__ = ["TRANSACTIONAL_ID", "TransactionBroker"]

TRANSACTIONAL_ID = "t"

Result = AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult
PartitionResult = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult


class TransactionBroker(ProduceBroker):
    """A broker that is the transaction coordinator too, with *version* of the protocol for transactions.

    ``answers`` replace the next answers to EndTxn: an error code, what a handler returns, or a function that
    is called first. ``unknown`` are partitions that the coordinator does not know.
    """

    def __init__(self, version: int = 1, **options: Any) -> None:
        self.answers: deque[Any] = deque()
        self.unknown: set[int] = set()
        self.version = version
        self.epoch = -1
        super().__init__(**options)
        self.on(FindCoordinatorRequest, self._find)
        self.on(InitProducerIdRequest, self._initialize)
        self.on(AddPartitionsToTxnRequest, self._add)
        self.on(EndTxnRequest, self._end)
        if version > 1:
            self.on(ApiVersionsRequest, self._versions_and_features)

    def transactional(self, **options: Any) -> Producer:
        """Return a producer with transactions."""
        return self.producer(transactional_id=TRANSACTIONAL_ID, **options)

    def of(self, request: type[ApiMessage]) -> list[Any]:
        """Return the requests of a class that have arrived."""
        return [each for each in self.requests if isinstance(each, request)]

    def ends(self) -> list[bool]:
        """Return what the EndTxn requests have asked for: True to commit."""
        return [each.committed for each in self.of(EndTxnRequest)]

    def _find(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        assert (request.key, request.key_type) == (TRANSACTIONAL_ID, 1)
        return FindCoordinatorResponse(node_id=self.node_id, host=self.host, port=self.port)

    def _initialize(self, _: InitProducerIdRequest) -> InitProducerIdResponse:
        self.epoch += 1
        return InitProducerIdResponse(producer_id=7, producer_epoch=self.epoch)

    def _add(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        unknown = any(self.unknown.intersection(each.partitions) for each in request.v3_and_below_topics)

        def code(number: int) -> int:
            if number in self.unknown:
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return ErrorCode.OPERATION_NOT_ATTEMPTED if unknown else ErrorCode.NONE

        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                Result(
                    name=topic.name,
                    results_by_partition=[
                        PartitionResult(partition_index=number, partition_error_code=code(number))
                        for number in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
        )

    def _end(self, request: EndTxnRequest) -> Any:
        answer = self.answers.popleft() if self.answers else 0
        if callable(answer):
            answer = answer()
        if not isinstance(answer, int):
            return answer
        if self.version == 1 or answer:
            return EndTxnResponse(error_code=answer)
        self.epoch = request.producer_epoch + 1
        return EndTxnResponse(producer_id=7, producer_epoch=self.epoch)

    def _versions_and_features(self, _: ApiVersionsRequest) -> ApiVersionsResponse:
        return ApiVersionsResponse(
            api_keys=[
                ApiVersionsResponse.ApiVersion(
                    api_key=key, min_version=each.versions[0], max_version=each.versions[1]
                )
                for key, each in REQUESTS.items()
            ],
            finalized_features=[
                ApiVersionsResponse.FinalizedFeatureKey(
                    name="transaction.version", max_version_level=2, min_version_level=2
                )
            ],
        )

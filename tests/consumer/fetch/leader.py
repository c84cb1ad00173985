"""A leader on a real socket that answers fetches as a test requires."""

import threading
import time
from collections.abc import Sequence

from pyklient.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataResponse,
)
from tests.consumer.stream.bench import batch
from tests.net.scripted import ScriptedBroker, metadata_of

__all__ = ["Leader"]

_LATEST = -1
_TOPIC_ID = b"t" * 16


class Leader(ScriptedBroker):
    """Leads the only partition of ``t``: *records* with the transactions *aborted* among them, as pairs of
    producer id and first offset, up to the offset *end*. *stable* is the last stable offset if it is not
    *end*; a fetch from there on gets no records. Each list of error codes is answered with first:
    *refusals* for the whole fetch, *errors* for the partition, *unlisted* when its offsets are asked for."""

    def __init__(
        self,
        records: bytes = batch("a"),
        *,
        end: int = 1,
        stable: int | None = None,
        aborted: Sequence[tuple[int, int]] = (),
    ) -> None:
        super().__init__()
        self.stable = stable
        self._records = records
        self._end = end
        self._aborted = aborted
        self.refusals: list[int] = []
        self.errors: list[int] = []
        self.unlisted: list[int] = []
        self.fetched_at: list[float] = []
        self._ending = threading.Event()
        self.on(MetadataRequest, self._describe)
        self.on(ListOffsetsRequest, self._list)
        self.on(FetchRequest, self._fetch)

    def close(self) -> None:
        self._ending.set()
        super().close()

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        partition = MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
            partition_index=0, leader_id=self.node_id, leader_epoch=1
        )
        topic = MetadataResponse.MetadataResponseTopic(name="t", topic_id=_TOPIC_ID, partitions=[partition])
        return metadata_of([self], [topic])

    def _list(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        kind = ListOffsetsResponse.ListOffsetsTopicResponse
        code = self.unlisted.pop(0) if self.unlisted else 0
        offset = self._end if request.topics[0].partitions[0].timestamp == _LATEST else 0
        partition = kind.ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=offset)
        return ListOffsetsResponse(topics=[kind(name="t", partitions=[partition])])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        self.fetched_at.append(time.monotonic())
        if self.refusals:
            return FetchResponse(error_code=self.refusals.pop(0))
        kind = FetchResponse.FetchableTopicResponse
        data = kind.PartitionData(
            partition_index=0,
            high_watermark=self._end,
            last_stable_offset=self._end if self.stable is None else self.stable,
            aborted_transactions=[
                kind.PartitionData.AbortedTransaction(producer_id=producer_id, first_offset=first)
                for producer_id, first in self._aborted
            ]
            if request.isolation_level
            else None,
            records=self._records,
        )
        if self.errors:
            data = kind.PartitionData(partition_index=0, error_code=self.errors.pop(0), high_watermark=-1)
        elif not request.topics or request.topics[0].partitions[0].fetch_offset >= self._end:
            self._ending.wait(request.max_wait_ms / 1000)
            return FetchResponse()
        elif self.stable is not None and request.topics[0].partitions[0].fetch_offset >= self.stable:
            self._ending.wait(request.max_wait_ms / 1000)
            data.records = b""
        return FetchResponse(responses=[kind(topic="t", topic_id=_TOPIC_ID, partitions=[data])])

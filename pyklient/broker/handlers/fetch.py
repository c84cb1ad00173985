"""The handler of Fetch: returns records as slices of the segment files, and waits for new records."""

import asyncio
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.topics import Partition
from pyklient.broker.fetch_sessions import FetchContext, FetchPartition, PartitionData, RequestedPartition
from pyklient.broker.handlers.request_context import RequestContext, ResponseWithFiles
from pyklient.broker.log.aborted_transactions import aborted_transactions
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.broker.log.segment import FileSlice
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, MessageTooLargeError, UnsupportedCodecError
from pyklient.kernel import convert
from pyklient.protocol.messages import FetchRequest, FetchResponse
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records.batch_header import batch_end

__all__ = ["fetch"]

_WHOLE_FIRST_BATCH = 3
_STORED_FORMAT = 4
_TOPIC_IDS = 13
_STAND_IN_BYTES = 64 << 20

# A slice of this stands for the bytes of a file while a response is encoded, so that the lengths are right
# although the bytes have not been read. It takes no memory, because its pages are never touched.
_stand_in = memoryview(
    mmap.mmap(-1, _STAND_IN_BYTES, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
)


@dataclass(slots=True)
class _Result:
    """The result of reading all partitions of a Fetch request once: the parts of the response, and their
    size."""

    partitions: list[tuple[RequestedPartition, PartitionData]] = field(default_factory=list)
    files: dict[int, FileSlice] = field(default_factory=dict)
    logs: list[PartitionLog] = field(default_factory=list)
    nbytes: int = 0
    failed: bool = False


async def fetch(node: NodeState, request: FetchRequest, context: RequestContext) -> ResponseWithFiles:
    """Return records of each partition, from the requested offset on.

    If there are fewer than ``min_bytes`` of records and no partition has an error, wait up to ``max_wait_ms``
    for more. From version 3 of the request on, the first batch is returned whole even if it exceeds the size
    limits; before version 3, only its beginning is returned. For requests before version 4, records are
    converted to the old formats, because the clients that send such requests cannot read format 2.
    """
    deadline = node.loop.time() + request.max_wait_ms / 1000
    try:
        fetch_context = node.fetch_sessions.context(request, context.version)
    except ApiError as error:
        return ResponseWithFiles(FetchResponse(error_code=error.code), {})
    max_bytes = min(request.max_bytes, node.config.fetch_max_bytes)
    while True:
        result = _read(node, fetch_context.requested, max_bytes, request.isolation_level, context.version)
        remaining = deadline - node.loop.time()
        enough = result.nbytes >= request.min_bytes or not result.logs
        if enough or result.failed or remaining <= 0:
            return ResponseWithFiles(_response(fetch_context, result), result.files)
        await _wait_for_records(node.loop, result.logs, remaining)


def _response(fetch_context: FetchContext, result: _Result) -> FetchResponse:
    response = FetchResponse(session_id=fetch_context.session_id)
    topic: FetchResponse.FetchableTopicResponse | None = None
    for asked, data in result.partitions:
        if not fetch_context.includes(asked, data):
            continue
        if topic is None or (topic.topic, topic.topic_id) != asked[:2]:
            topic = FetchResponse.FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id)
            response.responses.append(topic)
        topic.partitions.append(data)
    return response


async def _wait_for_records(
    loop: asyncio.AbstractEventLoop, logs: list[PartitionLog], seconds: float
) -> None:
    """Wait until new records can be read from one of *logs*, or one of them is deleted. Wait for at most
    *seconds*."""
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = loop.call_later(seconds, wake)
    for log in logs:
        log.watermarks.on_advance(wake)
    try:
        await woken
    finally:
        timer.cancel()
        for log in logs:
            log.watermarks.off_advance(wake)


def _read(
    node: NodeState,
    requested: Sequence[RequestedPartition],
    max_bytes: int,
    isolation_level: int,
    version: int,
) -> _Result:
    result = _Result()
    bytes_left = max_bytes
    for asked in requested:
        wanted = asked.partition
        data = PartitionData(partition_index=wanted.partition, records=b"")
        try:
            partition = _find(node, asked, version)
            # As in Kafka: the list is null, but empty if the partition is unknown.
            data.aborted_transactions = None
            log = node.leader_log(partition, wanted.current_leader_epoch)
            result.logs.append(log)
            limit = log.watermarks.limit(isolation_level)
            records = _slice(log, wanted, version, bytes_left, limit, first=not result.nbytes)
        except ApiError as error:
            data.error_code, data.high_watermark = error.code, -1
            result.failed = True
        else:
            data.aborted_transactions = (
                _aborted(log, wanted.fetch_offset, records) if isolation_level else None
            )
            _fill(data, log, records, result)
            bytes_left -= 0 if records is None else _length(records)
        result.partitions.append((asked, data))
    return result


def _find(node: NodeState, asked: RequestedPartition, version: int) -> Partition:
    index = asked.partition.partition
    topics = node.cluster.topics
    if version < _TOPIC_IDS:
        return topics.partition(asked.topic, index)
    return topics.partition_by_id(asked.topic_id, index)


def _slice(
    log: PartitionLog, wanted: FetchPartition, version: int, bytes_left: int, limit: int, *, first: bool
) -> FileSlice | Buffer | None:
    old = version < _WHOLE_FIRST_BATCH
    found = log.slice(
        wanted.fetch_offset,
        min(bytes_left, wanted.partition_max_bytes),
        limit=limit,
        whole_first=first and not old,
        partial=old,
    )
    if found is None or version >= _STORED_FORMAT:
        return found
    return _converted(found, magic=0 if version < 2 else 1, offset=wanted.fetch_offset)


def _aborted(
    log: PartitionLog, fetch_offset: int, records: FileSlice | Buffer | None
) -> list[FetchResponse.FetchableTopicResponse.PartitionData.AbortedTransaction]:
    """Return the aborted transactions that have records in *records*, from *fetch_offset* on. A consumer
    with ``read_committed`` needs them to skip these records."""
    if not isinstance(records, FileSlice):
        return []
    return [
        FetchResponse.AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in aborted_transactions(log.segments, fetch_offset, records.end_offset)
    ]


def _converted(found: FileSlice, *, magic: int, offset: int) -> Buffer:
    """Return the records of *found*, from *offset* on, in record format *magic* (0 or 1), for clients that do
    not know format 2.

    If *found* is only the beginning of a batch, it is returned unchanged. The length of a batch is at the
    same position in every format, so the client can tell that the batch is larger than its limit.
    """
    data = found.read()
    try:
        if not batch_end(memoryview(data), 0):
            return data
        return convert(data, magic, from_offset=offset)
    except UnsupportedCodecError as error:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    except MessageTooLargeError as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except KafkaError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _fill(
    data: PartitionData, log: PartitionLog, records: FileSlice | Buffer | None, result: _Result
) -> None:
    data.high_watermark = log.watermarks.high_watermark
    data.last_stable_offset = log.watermarks.last_stable_offset
    data.log_start_offset = log.start_offset
    if records is None:
        return
    if isinstance(records, FileSlice) and records.length <= _STAND_IN_BYTES:
        data.records = view = _stand_in[: records.length]
        result.files[id(view)] = records
    else:
        data.records = records.read() if isinstance(records, FileSlice) else records
    result.nbytes += _length(records)


def _length(records: FileSlice | Buffer) -> int:
    return records.length if isinstance(records, FileSlice) else memoryview(records).nbytes

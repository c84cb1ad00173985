"""Handing records out: slices of the segment files, as they were stored."""

import asyncio
import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyklient.broker.api_errors import Refusal
from pyklient.broker.fetch_sessions import Answer, Partition, Ticket, Wanted
from pyklient.broker.handlers.request_context import Call, Reply
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.broker.log.segment import FileSlice
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, MessageTooLargeError, UnsupportedCodecError
from pyklient.kernel import convert
from pyklient.protocol.messages import FetchRequest, FetchResponse
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records.record_batch import batch_end

__all__ = ["fetch"]

_WHOLE_FIRST_BATCH = 3
_STORED_FORMAT = 4
_TOPIC_IDS = 13
_STAND_IN_BYTES = 64 << 20

# Pages that are never touched cost nothing: a slice of this stands for a file's bytes while a response is
# encoded, so that lengths are right without the bytes having been read.
_stand_in = memoryview(
    mmap.mmap(-1, _STAND_IN_BYTES, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
)


@dataclass(slots=True)
class _Gathered:
    """One pass over the partitions asked for."""

    answers: list[tuple[Wanted, Answer]] = field(default_factory=list)
    files: dict[int, FileSlice] = field(default_factory=dict)
    logs: list[PartitionLog] = field(default_factory=list)
    nbytes: int = 0
    failed: bool = False


async def fetch(node: Node, request: FetchRequest, call: Call) -> Reply:
    """Records from the offsets asked for; waits up to ``max_wait_ms`` until ``min_bytes`` of them are there.

    Answers at once when a partition has an error. Before version 3 a batch larger than the limit is cut,
    from then on the first one comes whole; below version 4 records are converted to the format of the time.
    """
    deadline = node.loop.time() + request.max_wait_ms / 1000
    try:
        ticket = node.fetch_sessions.admit(request, call.version)
    except Refusal as refusal:
        return Reply(FetchResponse(error_code=refusal.code), {})
    most = min(request.max_bytes, node.settings.fetch_max_bytes)
    while True:
        gathered = _gather(node, ticket.wanted, most, request.isolation_level, call)
        remaining = deadline - node.loop.time()
        enough = gathered.nbytes >= request.min_bytes or not gathered.logs
        if enough or gathered.failed or remaining <= 0:
            return Reply(_response(ticket, gathered), gathered.files)
        await _wait_for_append(node.loop, gathered.logs, remaining)


def _response(ticket: Ticket, gathered: _Gathered) -> FetchResponse:
    """What was *gathered*, as far as the client has to hear it."""
    response = FetchResponse(session_id=ticket.session_id)
    topic: FetchResponse.FetchableTopicResponse | None = None
    for asked, answer in gathered.answers:
        if not ticket.report(asked, answer):
            continue
        if topic is None or (topic.topic, topic.topic_id) != asked[:2]:
            topic = FetchResponse.FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id)
            response.responses.append(topic)
        topic.partitions.append(answer)
    return response


async def _wait_for_append(loop: asyncio.AbstractEventLoop, logs: list[PartitionLog], seconds: float) -> None:
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = loop.call_later(seconds, wake)
    for log in logs:
        log.on_append(wake)
    try:
        await woken
    finally:
        timer.cancel()
        for log in logs:
            log.off_append(wake)


def _gather(node: Node, wanted: Sequence[Wanted], most: int, isolation_level: int, call: Call) -> _Gathered:
    gathered = _Gathered()
    left = most
    for asked in wanted:
        partition = asked.partition
        data = Answer(partition_index=partition.partition, records=b"")
        try:
            log = _find(node, asked, call.version)
            data.aborted_transactions = (
                None  # as Kafka; the answer for an unknown partition has an empty list
            )
            gathered.logs.append(log)
            _check_epoch(partition.current_leader_epoch)
            taken = _take(log, partition, call.version, left, first=not gathered.nbytes)
        except Refusal as refusal:
            data.error_code, data.high_watermark = refusal.code, -1
            gathered.failed = True
        else:
            data.aborted_transactions = [] if isolation_level else None
            _fill(data, log, taken, gathered)
            left -= 0 if taken is None else _length(taken)
        gathered.answers.append((asked, data))
    return gathered


def _find(node: Node, asked: Wanted, version: int) -> PartitionLog:
    index = asked.partition.partition
    if version < _TOPIC_IDS:
        return node.topics.partition(asked.topic, index)
    topic = node.topics.find_id(asked.topic_id)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_ID, "there is no topic with this id")
    return node.topics.partition(topic.name, index)


def _check_epoch(epoch: int) -> None:
    """Leaders never change here, so the only epoch is 0."""
    if epoch > 0:
        raise Refusal(ErrorCode.UNKNOWN_LEADER_EPOCH, f"leader epoch {epoch} is newer than this broker's")


def _take(
    log: PartitionLog, wanted: Partition, version: int, left: int, *, first: bool
) -> FileSlice | Buffer | None:
    old = version < _WHOLE_FIRST_BATCH
    found = log.slice(
        wanted.fetch_offset, min(left, wanted.partition_max_bytes), whole_first=first and not old, partial=old
    )
    if found is None or version >= _STORED_FORMAT:
        return found
    return _converted(found, magic=0 if version < 2 else 1, offset=wanted.fetch_offset)


def _converted(found: FileSlice, *, magic: int, offset: int) -> Buffer:
    """For clients from before format 2. They see of a batch that was cut that it is too large: its length
    stands where they look for it, in every format."""
    data = found.read()
    try:
        if not batch_end(memoryview(data), 0):
            return data
        return convert(data, magic, from_offset=offset)
    except UnsupportedCodecError as error:
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    except MessageTooLargeError as error:
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except KafkaError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from None


def _fill(
    data: Answer,
    log: PartitionLog,
    taken: FileSlice | Buffer | None,
    gathered: _Gathered,
) -> None:
    data.high_watermark = data.last_stable_offset = log.end_offset
    data.log_start_offset = log.start_offset
    if taken is None:
        return
    if isinstance(taken, FileSlice) and taken.length <= _STAND_IN_BYTES:
        data.records = view = _stand_in[: taken.length]
        gathered.files[id(view)] = taken
    else:
        data.records = taken.read() if isinstance(taken, FileSlice) else taken
    gathered.nbytes += _length(taken)


def _length(taken: FileSlice | Buffer) -> int:
    return taken.length if isinstance(taken, FileSlice) else memoryview(taken).nbytes

"""Reading from one leader: a thread that asks for records, cuts the answers and queues them at the streams.

It uses a connection of its own, in its own thread, so that an answer crosses no thread before it is queued.
The leader keeps a session of what it is asked for, but for a bounded read: that is over soon, and would only
leave its session behind.

A partition without room is left out of the next request; how long that may wait then depends on whether its
reader is making room.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from pyklient.config import ConsumerConfig
from pyklient.consumer.claim import Claim, Failure, Piece
from pyklient.consumer.room import Frames, Room
from pyklient.consumer.session import FetchSession, Wanted, name_all
from pyklient.error_codes import ErrorCode
from pyklient.errors import (
    BrokerError,
    ClosedError,
    CorruptRecordError,
    ForkError,
    KafkaError,
    MessageTooLargeError,
    OffsetOutOfRangeError,
    broker_error,
)
from pyklient.net.client import NetworkClient
from pyklient.net.connection import Connection
from pyklient.net.pool import Purpose
from pyklient.protocol.messages import FetchRequest, FetchResponse
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.protocol.records import AbortedTransactions, RecordBatch
from pyklient.protocol.records.batch import batch_end
from pyklient.topic_partition import TopicPartition

__all__ = ["Fetcher", "may_pass", "whole_batches"]

log = logging.getLogger("pyklient.consumer")

_BY_NAME = 12
"""The newest Fetch that names topics; later ones have ids only."""
_LIMITED = 3
"""The first Fetch with a limit for the whole response, and the first whose answer holds one whole batch."""
_TICK = 1.0
_BRIEF_MS = 10
_LONGEST_BRIEF_MS = 100  # so long may a reader that goes on after a while have to wait
_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}


class Fetcher:
    """Reads the partitions that *node_id* leads. ``seek`` takes those that have to look for another leader.

    Its thread owns the positions of its claims; others hand claims in with :meth:`take`.
    """

    def __init__(
        self,
        node_id: int,
        client: NetworkClient,
        config: ConsumerConfig,
        room: Room,
        seek: Callable[[Claim, KafkaError | None], None],
    ) -> None:
        self.node_id = node_id
        self.in_flight = 0
        self._client = client
        self._config = config
        self._room = room
        self._seek = seek
        self._inbox: queue.SimpleQueue[Claim | None] = queue.SimpleQueue()
        self._claims: dict[TopicPartition, Claim] = {}
        self._frames = Frames()
        self._connection: Connection | None = None
        self._session = FetchSession()
        self._least = config.max_partition_fetch_bytes
        self._closing = False
        self._brief_ms = _BRIEF_MS
        self._progress = 0
        self.thread = threading.Thread(target=self._run, name=f"pyklient-fetcher-{node_id}", daemon=True)

    def take(self, claim: Claim) -> None:
        """Read *claim* from now on, from its position."""
        self._inbox.put(claim)

    def close(self) -> None:
        """End the thread, also in the middle of a fetch. Does not wait for it."""
        self._closing = True
        self._inbox.put(None)
        connection = self._connection
        if connection is not None:
            connection.close()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._admit()
                if allowed := self._allowed():
                    self._fetch(allowed)
                else:
                    self._wait_for_room()
        except (ClosedError, ForkError):
            pass
        except Exception as error:
            log.exception("reading from broker %d has stopped", self.node_id)
            for claim in self._claims.values():
                claim.stream.fail(error)

    def _allowed(self) -> dict[Claim, int]:
        limit = self._config.max_partition_fetch_bytes
        return self._room.allow(self._claims.values(), limit, time.monotonic(), least=self._least)

    def _admit(self) -> None:
        """Take in what has been handed over, and let go of what has been taken away."""
        while not self._inbox.empty():
            self._adopt(self._inbox.get_nowait())
        for claim in [claim for claim in self._claims.values() if not claim.active]:
            del self._claims[claim.partition]

    def _adopt(self, claim: Claim | None) -> None:
        if claim is not None:
            self._claims[claim.partition] = claim

    def _wait_for_room(self) -> None:
        """Every partition has enough waiting, or there is none: wait for a reader, or for a claim."""
        for claim in self._claims.values():
            claim.on_room = self._wake
        # A reader may have made room before it could see that someone waits for it.
        if not self._allowed():
            with suppress(queue.Empty):
                self._adopt(self._inbox.get(timeout=_TICK))

    def _wake(self) -> None:
        self._inbox.put(None)

    def _fetch(self, allowed: Mapping[Claim, int]) -> None:
        """One request and its answer."""
        max_wait_ms = self._patience(allowed)
        timeout = self._config.request_timeout_ms / 1000
        self.in_flight = self._room.response_limit(self, allowed, self._config.fetch_max_bytes)
        try:
            connection = self._connect(timeout)
            version = connection.version_of(FetchRequest, _newest(allowed))
            self._least = 1 if version >= _LIMITED else self._config.max_partition_fetch_bytes
            request = self._request(allowed, version, max_wait_ms)
            response: FetchResponse = connection.ask(
                request, max_wait_ms / 1000 + timeout, max_version=version
            )
            if not response.error_code:
                self._session.accept(response)
                self._take(allowed, response, by_id=version > _BY_NAME)
            elif not self._session.refused(response.error_code):
                raise broker_error(response.error_code, f"fetching from broker {self.node_id}")
        except (ClosedError, ForkError):
            if self._closing:
                raise
            self._lose_all(None)
        except KafkaError as error:
            self._session.restart()
            if may_pass(error):
                self._lose_all(error)
            else:
                for claim in list(self._claims.values()):
                    self._fail(claim, error)
        finally:
            self.in_flight = 0

    def _connect(self, timeout: float) -> Connection:
        connection = self._client.connection(self.node_id, Purpose.FETCH, timeout)
        if connection is not self._connection:
            self._connection = connection
            self._session.restart()
        return connection

    def _request(self, allowed: Mapping[Claim, int], version: int, max_wait_ms: int) -> FetchRequest:
        """Asks for each claim from its position, for so many bytes at most."""
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self.in_flight,
            isolation_level=_ISOLATION[self._config.isolation_level],
        )
        wanted = {
            claim.partition: Wanted(claim.position or 0, limit, claim.leader_epoch, claim.topic_id)
            for claim, limit in allowed.items()
        }
        if all(claim.end is not None for claim in allowed):
            name_all(request, wanted)
        else:
            self._session.fill(request, wanted, by_id=version > _BY_NAME)
        return request

    def _patience(self, allowed: Mapping[Claim, int]) -> int:
        """Milliseconds for which the broker may wait for data: briefly where a partition that is left out
        for lack of room may have it soon, longer and longer while its reader stands still."""
        most = self._config.fetch_max_wait_ms
        left_out = [claim for claim in self._claims.values() if claim not in allowed]
        if not left_out:
            return most
        progress = sum(claim.taken for claim in left_out)
        self._brief_ms = _BRIEF_MS if progress != self._progress else 2 * self._brief_ms
        self._brief_ms = min(self._brief_ms, _LONGEST_BRIEF_MS)
        self._progress = progress
        return min(self._brief_ms, most)

    def _lose_all(self, error: KafkaError | None) -> None:
        if error is not None:
            log.info("cannot fetch from broker %d, looking for its partitions: %s", self.node_id, error)
        for claim in list(self._claims.values()):
            self._lose(claim, error)

    def _lose(self, claim: Claim, error: KafkaError | None) -> None:
        del self._claims[claim.partition]
        self._seek(claim, error)

    def _take(self, allowed: Mapping[Claim, int], response: FetchResponse, *, by_id: bool) -> None:
        asked = {
            (claim.topic_id if by_id else claim.partition.topic, claim.partition.partition): claim
            for claim in allowed
        }
        size = 0
        pieces: list[Piece] = []
        for topic in response.responses:
            for data in topic.partitions:
                claim = asked.get((topic.topic_id if by_id else topic.topic, data.partition_index))
                if claim is None or not claim.active:
                    continue
                if data.error_code:
                    self._refused(claim, data.error_code)
                elif data.records:
                    size += len(data.records)
                    pieces += self._queue(claim, data)
                elif claim.end is not None and size == 0 and len(allowed) == 1:
                    self._pass_gap(claim, data)
        self._frames.add(size, pieces)
        self._frames.compact(self._room.idle_allowed)

    def _queue(self, claim: Claim, data: "FetchResponse.FetchableTopicResponse.PartitionData") -> list[Piece]:
        """Hand what has come for *claim* to its stream, up to the last whole batch."""
        records: memoryview = memoryview(data.records or b"")
        position = claim.position or 0
        try:
            end, next_offset = whole_batches(records)
        except CorruptRecordError as error:
            self._fail(claim, CorruptRecordError(f"{claim.partition} behind offset {position}: {error}"))
            return []
        if not end:
            self._fail(
                claim,
                MessageTooLargeError(
                    f"the message at offset {position} of {claim.partition} is larger than "
                    f"max_partition_fetch_bytes={self._config.max_partition_fetch_bytes}; raise that"
                ),
            )
            return []
        aborted = data.aborted_transactions
        piece = Piece(
            claim,
            records[:end],
            position,
            next_offset,
            AbortedTransactions((each.producer_id, each.first_offset) for each in aborted)
            if aborted
            else None,
        )
        claim.position = max(position, next_offset)
        claim.failures = 0
        claim.stream.put([piece])
        del self._claims[claim.partition]
        if not claim.finished:
            # It goes to the end of the next request, so that an answer that is full serves the others first.
            self._claims[claim.partition] = claim
        return [piece]

    def _pass_gap(self, claim: Claim, data: "FetchResponse.FetchableTopicResponse.PartitionData") -> None:
        """Asked for alone, a partition answers with nothing although there are later offsets: all that was
        left of it up to its end has been compacted away."""
        position = claim.position or 0
        readable = data.last_stable_offset if data.last_stable_offset >= 0 else data.high_watermark
        if claim.end is not None and readable >= claim.end > position:
            claim.position = claim.end
            claim.stream.put([Piece(claim, memoryview(b""), position, claim.end)])
            del self._claims[claim.partition]

    def _refused(self, claim: Claim, code: int) -> None:
        """A partition's own error code."""
        error: KafkaError = broker_error(code, f"fetching {claim.partition} at offset {claim.position}")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if claim.reset == "none":
                self._fail(claim, OffsetOutOfRangeError(str(error)))
                return
            log.warning("%s; going on from its %s offset (auto_offset_reset)", error, claim.reset)
            claim.position = None
            self._lose(claim, None)
        elif code != ErrorCode.CORRUPT_MESSAGE and may_pass(error):
            expected = code != ErrorCode.UNKNOWN_SERVER_ERROR
            log.log(logging.INFO if expected else logging.WARNING, "%s; trying again", error)
            self._lose(claim, error)
        else:
            self._fail(claim, CorruptRecordError(str(error)) if code == ErrorCode.CORRUPT_MESSAGE else error)

    def _fail(self, claim: Claim, error: KafkaError) -> None:
        """Leave *claim* alone until its reader has heard of *error* and wants to go on."""
        del self._claims[claim.partition]
        claim.stream.put([Failure(claim, error, claim.position)])


def may_pass(error: KafkaError) -> bool:
    """Whether reading may go on if the broker is asked again. That includes a failure that it has no code
    for (UNKNOWN_SERVER_ERROR): nothing is lost by another try, as there would be in a producer."""
    return error.retriable or (
        isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    )


def whole_batches(records: memoryview) -> tuple[int, int]:
    """Where the last whole batch in *records* ends, and the offset after it; (0, -1) when there is none.

    Raises CorruptRecordError where the bytes are no batch.
    """
    last = position = 0
    while end := batch_end(records, position):
        last, position = position, end
    if not position:
        return 0, -1
    return position, RecordBatch(records[last:position]).next_offset


def _newest(allowed: Iterable[Claim]) -> int | None:
    """The newest Fetch that can name the topics of *allowed*; None for any."""
    return _BY_NAME if any(claim.topic_id == ZERO_UUID for claim in allowed) else None

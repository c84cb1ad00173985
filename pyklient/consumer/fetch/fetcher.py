"""A fetcher: the thread that fetches from one leader and puts the batches into the queues of streams.

A fetcher has a connection of its own and receives in its own thread, so a response passes through no other
thread before it is queued. A fetcher uses a fetch session, except in a bounded read: such a read ends soon,
and would leave an unused session at the broker.

A partition that has used up its part of the fetch budget is left out of the next request. The broker then
waits for data for a shorter time, so that the fetcher can soon ask for the partition again.
"""

import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeAlias

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.arrivals import Arrivals
from pyklient.consumer.fetch.cut_batches import cut_batch_size
from pyklient.consumer.fetch.fetch_budget import ExpectedResponse, FetchBudget, ResponseMemory
from pyklient.consumer.fetch.fetch_plan import FetchPlan
from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches, FetchFailure
from pyklient.consumer.fetch.fetch_session import FetchSession, name_all
from pyklient.consumer.fetch.fetcher_handover import FetchedPartition
from pyklient.consumer.fetch.max_wait import MaxWait
from pyklient.consumer.fetch.open_transactions import OpenTransactions
from pyklient.consumer.fetch.partial_messages import LIMITED, ask_for_more
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
from pyklient.kernel import whole_batches
from pyklient.log_events import log_fields
from pyklient.net.connection.connection import Connection
from pyklient.net.connection_pool import Purpose
from pyklient.net.network_client import NetworkClient
from pyklient.outage import Outage
from pyklient.protocol.messages import FetchRequest, FetchResponse
from pyklient.protocol.records import AbortedTransactions

__all__ = ["Fetcher", "may_pass"]

log = logging.getLogger("pyklient.consumer")

_BY_NAME = 12
"""The newest version of Fetch that names topics by name. Later versions have topic ids only."""
_TICK = 1.0
_GONE_AFTER = 5.0
"""The number of seconds after which an outage of the broker counts as over, if the fetcher has no partitions
any more."""
_PartitionData: TypeAlias = FetchResponse.FetchableTopicResponse.PartitionData
_ISOLATION = {"read_uncommitted": 0, "read_committed": 1}


class Fetcher:
    """Fetches the partitions that the broker *node_id* leads. If a partition needs another leader, the
    fetcher calls *seek* with the state of the partition, and with the error if there was one.

    The fetcher's thread owns the positions of its cursors. Other threads pass partitions to it with
    :meth:`assign`.
    """

    def __init__(
        self,
        node_id: int,
        client: NetworkClient,
        config: ConsumerConfig,
        budget: FetchBudget,
        open_transactions: OpenTransactions,
        seek: Callable[[FetchedPartition, KafkaError | None], None],
    ) -> None:
        self.node_id = node_id
        self.response = ExpectedResponse()
        self._client = client
        self._config = config
        self._budget = budget
        self._open_transactions = open_transactions
        self._seek = seek
        self._inbox: queue.SimpleQueue[FetchedPartition | None] = queue.SimpleQueue()
        self._plan = FetchPlan(budget, config)
        self._memory = ResponseMemory()
        self._arrivals = Arrivals(budget)
        self._connection: Connection | None = None
        self._session = FetchSession()
        self._least = config.max_partition_fetch_bytes
        self._outage = Outage(
            log, f"fetches from broker {node_id}", "fetch_outage", level=logging.INFO, broker=node_id
        )
        self._closing = False
        self._max_wait = MaxWait(config.fetch_max_wait_ms)
        self.thread = threading.Thread(target=self._run, name=f"pyklient-fetcher-{node_id}", daemon=True)

    def assign(self, state: FetchedPartition) -> None:
        """Fetch the partition of *state* from now on, beginning at the position of its cursor."""
        self._inbox.put(state)

    def close(self) -> None:
        """Make the thread end, even in the middle of a fetch. This call does not wait for the end."""
        self._closing = True
        self._inbox.put(None)
        connection = self._connection
        if connection is not None:
            connection.close()

    def _run(self) -> None:
        try:
            while not self._closing:
                self._admit()
                if self._plan.update(time.monotonic(), self._least):
                    self._fetch()
                else:
                    self._wait_for_budget()
        except (ClosedError, ForkError):
            pass
        except Exception as error:
            log.exception("reading from broker %d has stopped unexpectedly; please report this", self.node_id)
            for state in self._plan.states.values():
                state.queue.fail(error)

    def _admit(self) -> None:
        """Add the cursors that other threads have passed to :meth:`assign`, and drop the cursors that are not
        active any more."""
        while not self._inbox.empty():
            self._adopt(self._inbox.get_nowait())
        gone = self._plan.drop_inactive(time.monotonic())
        for state in gone:
            if state.cursor.dropped:
                self._max_wait.note_move()
            else:
                self._open_transactions.drop(state.cursor.partition)
        if gone:
            self._memory.compact(self._budget.idle_allowed)

    def _adopt(self, state: FetchedPartition | None) -> None:
        if state is not None:
            if state.cursor.partition in self._plan.states:
                self._max_wait.note_move()
            self._plan.add(state)

    def _wait_for_budget(self) -> None:
        """Wait up to a second, because no partition may be fetched now. The wait ends early when a loop has
        decoded something, when a partition is resumed, or when there is a new cursor."""
        for state in self._plan.states.values():
            state.cursor.on_decoded = self._wake
        if not self._plan.states:
            self._outage.passed_by(_GONE_AFTER, "other brokers lead the partitions now")
        # A loop may have read something before it could see that this thread waits for it.
        if not self._plan.update(time.monotonic(), self._least):
            with suppress(queue.Empty):
                self._adopt(self._inbox.get(timeout=_TICK))

    def _wake(self) -> None:
        self._inbox.put(None)

    def _fetch(self) -> None:
        """Send one request for the planned partitions, and handle its response."""
        plan = self._plan
        timeout = self._config.request_timeout_ms / 1000
        most = self._config.fetch_max_bytes
        self.response.size = self._budget.response_limit(self.response, plan.allowed, most)
        try:
            connection = self._connect(timeout)
            version = connection.version_of(FetchRequest, None if plan.has_ids else _BY_NAME)
            self._least = 1 if version >= LIMITED else self._config.max_partition_fetch_bytes
            if version < LIMITED:
                plan.reduce(most)
            max_wait_ms = self._max_wait.next_ms(plan.left_out)
            request = self._request(version, max_wait_ms)
            response: FetchResponse = connection.ask(
                request, max_wait_ms / 1000 + timeout, max_version=version
            )
            if not response.error_code:
                self._outage.ended()
                self._session.accept(response)
                self._accept(response, by_id=version > _BY_NAME)
            elif not self._session.accept_error(response.error_code):
                raise broker_error(response.error_code, f"cannot fetch from broker {self.node_id}")
        except (ClosedError, ForkError):
            if self._closing:
                raise
            self._lose_all(None)
        except KafkaError as error:
            self._session.restart()
            if may_pass(error):
                self._lose_all(error)
            else:
                for state in list(plan.states.values()):
                    self._fail(state, error)
        finally:
            self.response.size = 0

    def _connect(self, timeout: float) -> Connection:
        connection = self._client.connection(self.node_id, Purpose.FETCH, timeout)
        if connection is not self._connection:
            self._connection = connection
            self._session.restart()
        return connection

    def _request(self, version: int, max_wait_ms: int) -> FetchRequest:
        """Return a request in *version* that asks for the planned partitions and bytes."""
        request = FetchRequest(
            max_wait_ms=max_wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self.response.size,
            isolation_level=_ISOLATION[self._config.isolation_level],
        )
        plan = self._plan
        changed = plan.drain_changed()
        if plan.bounded:
            name_all(request, plan.wanted)
        else:
            self._session.fill(request, plan.wanted, changed, by_id=version > _BY_NAME)
        return request

    def _lose_all(self, error: KafkaError | None) -> None:
        if error is not None:
            self._outage.failed(error, "looking up the leaders of its partitions")
        for state in list(self._plan.states.values()):
            self._lose(state, error)

    def _lose(self, state: FetchedPartition, error: KafkaError | None) -> None:
        self._plan.remove(state.cursor.partition)
        self._seek(state, error)

    def _accept(self, response: FetchResponse, *, by_id: bool) -> None:
        """Queue the records in *response*. *by_id* is true if the response names topics by their ids."""
        plan = self._plan
        size, now = 0, time.monotonic()
        parts: list[FetchedBatches] = []
        for topic in response.responses:
            for data in topic.partitions:
                state = plan.asked(topic.topic_id if by_id else topic.topic, data.partition_index)
                if state is None or not (cursor := state.cursor).active:
                    continue
                if data.high_watermark >= 0:
                    cursor.counts.readable_to = _readable_to(data, self._config.isolation_level)
                if data.error_code:
                    self._accept_error_code(state, data.error_code)
                elif data.records:
                    size += len(data.records)
                    cursor.counts.fetched.add(0, len(data.records), now)
                    parts += self._queue(state, data, plan.allowed[cursor])
                elif cursor.end is not None and size == 0 and len(plan.allowed) == 1:
                    self._pass_gap(state, data)
                self._open_transactions.note(cursor, data, now)
        self._arrivals.queue_all()
        self._open_transactions.check(now)
        self._memory.add(size, parts)
        self._memory.compact_some(self._budget.idle_allowed)

    def _queue(self, state: FetchedPartition, data: _PartitionData, asked: int) -> list[FetchedBatches]:
        """Put the records in *data*, up to the last whole batch, into the queue of *state*, and return them.
        *asked* is the number of bytes that the request asked for."""
        records: memoryview = memoryview(data.records or b"")
        cursor = state.cursor
        self._plan.note_change(cursor)
        position = cursor.position or 0
        try:
            runs = whole_batches(records)
        except CorruptRecordError as error:
            self._fail(
                state,
                CorruptRecordError(f"cannot read {cursor.partition} from offset {position} on: {error}"),
            )
            return []
        if not runs:
            try:
                ask_for_more(cursor, asked, records, self._config.fetch_max_bytes)
            except MessageTooLargeError as error:
                self._fail(state, error)
            return []
        cursor.fetch_bytes = None
        cursor.cut_batch = cut_batch_size(records, runs[-1].end)
        aborted = AbortedTransactions.listed(data.aborted_transactions)
        fetched = []
        for run in runs:
            batches = records[run.start : run.end]
            fetched.append(
                FetchedBatches(cursor, batches, position, run.next_offset, aborted, run.leader_epoch)
            )
            position = max(position, run.next_offset)
        cursor.position = position
        state.failures = 0
        self._arrivals.add(state.queue, fetched)
        if cursor.finished:
            self._plan.remove(cursor.partition)
        return fetched

    def _pass_gap(self, state: FetchedPartition, data: _PartitionData) -> None:
        """Move the cursor of *state* to its ``end``, if the cursor has an end and no records are left before
        the end.

        The broker was asked for this partition alone, and returned no records although the log has later
        offsets. So compaction has removed the records up to ``end``.
        """
        cursor = state.cursor
        position = cursor.position or 0
        readable = _readable_to(data, self._config.isolation_level)
        if cursor.end is not None and readable >= cursor.end > position:
            cursor.position = cursor.end
            state.queue.put([FetchedBatches(cursor, memoryview(b""), position, cursor.end)])
            self._plan.remove(cursor.partition)

    def _accept_error_code(self, state: FetchedPartition, code: int) -> None:
        """Handle the error *code* of one partition: fetch it again, look up its leader again, or make its
        loop raise an error."""
        cursor = state.cursor
        cursor.counts.count_error(code)
        error: KafkaError = broker_error(code, f"cannot fetch {cursor.partition} at offset {cursor.position}")
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:
            if cursor.reset == "none":
                self._fail(state, OffsetOutOfRangeError(str(error)))
                return
            _log_reset(cursor, error)
            cursor.position = None
            self._lose(state, None)
        elif code != ErrorCode.CORRUPT_MESSAGE and may_pass(error):
            again = logging.DEBUG if state.failures else logging.INFO
            level = logging.WARNING if code == ErrorCode.UNKNOWN_SERVER_ERROR else again
            log.log(level, "%s; trying again", error)
            self._lose(state, error)
        else:
            self._fail(state, CorruptRecordError(str(error)) if code == ErrorCode.CORRUPT_MESSAGE else error)

    def _fail(self, state: FetchedPartition, error: KafkaError) -> None:
        """Stop fetching the partition of *state* until its loop has raised *error* and a new loop
        continues."""
        self._plan.remove(state.cursor.partition)
        self._max_wait.note_move()
        self._arrivals.queue_all()  # a loop gets these messages before it raises the error
        state.queue.put([FetchFailure(state.cursor, error, state.cursor.position)])


def may_pass(error: KafkaError) -> bool:
    """Return True if reading may succeed when the broker is asked again after *error*.

    UNKNOWN_SERVER_ERROR counts as such an error. A consumer can safely ask again after it; a producer could
    not.
    """
    return error.retriable or (
        isinstance(error, BrokerError) and error.code == ErrorCode.UNKNOWN_SERVER_ERROR
    )


def _log_reset(cursor: Cursor, error: KafkaError) -> None:
    """Warn that *cursor* continues at the offset that ``auto_offset_reset`` gives. *error* says why it cannot
    continue at its present offset."""
    log.warning(
        "reading of %s continues at the %s offset (auto_offset_reset), because of an error: %s",
        cursor.partition,
        cursor.reset,
        error,
        extra=log_fields(
            "position_reset",
            topic=cursor.partition.topic,
            partition=cursor.partition.partition,
            offset=cursor.position,
            reset=cursor.reset,
        ),
    )


def _readable_to(data: _PartitionData, isolation_level: str) -> int:
    """Return the offset up to which a partition can be read: the last stable offset if *isolation_level*
    is ``read_committed``, otherwise the high watermark. *data* is the part of a response about this
    partition."""
    stable = data.last_stable_offset
    return stable if isolation_level == "read_committed" and stable >= 0 else data.high_watermark

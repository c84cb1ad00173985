"""Fetch sessions (KIP-227): the broker remembers which partitions a client fetches, and which high watermark
and log start offset the client knows of each.

The client's next request names only the partitions that it adds or removes, and the response names only the
partitions that have changed. A session is kept until its client closes it or the cache is full. If the cache
is full, the least recently used session is removed: the next request of its client gets an error, and the
client opens another session.
"""

import random
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from pyklient.broker.api_errors import ApiError
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import FetchRequest, FetchResponse

__all__ = [
    "FetchContext",
    "FetchPartition",
    "FetchSession",
    "FetchSessionCache",
    "PartitionData",
    "RequestedPartition",
]

_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1
_TOPIC_IDS: Final = 13

FetchPartition: TypeAlias = FetchRequest.FetchTopic.FetchPartition
PartitionData: TypeAlias = FetchResponse.FetchableTopicResponse.PartitionData


class RequestedPartition(NamedTuple):
    """A partition from which a client fetches. A request names its topic by name or by id."""

    topic: str
    topic_id: bytes
    partition: FetchPartition


_Key: TypeAlias = tuple[str, bytes, int]
_UNKNOWN: Final = (-1, -1)


class FetchSession:
    """The partitions that one client fetches, in the order in which they are served.

    A partition that had data moves to the end, so that all partitions get their turn.
    """

    __slots__ = ("_sent", "by_id", "epoch", "requested", "session_id")

    def __init__(self, session_id: int, requested: list[RequestedPartition], *, by_id: bool) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1
        """The session epoch that the client's next request must have. It grows by one with each request of
        the session."""
        self.requested: OrderedDict[_Key, RequestedPartition] = OrderedDict(
            (_key(each), each) for each in requested
        )
        self._sent: dict[_Key, tuple[int, int]] = {}  # high watermark and log start offset

    def update(self, request: FetchRequest) -> None:
        """Add the partitions that *request* names, and remove those that it lists as forgotten."""
        for each in _named(request):
            self.requested[_key(each)] = each
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                key = (topic.topic, topic.topic_id, index)
                self.requested.pop(key, None)
                self._sent.pop(key, None)
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1

    def has_changed(self, asked: RequestedPartition, data: PartitionData) -> bool:
        """Return True if *data* has records or an error, or if its offsets differ from those that the last
        call for this partition has stored. Store its offsets for the next call.

        If the result is True, the caller must send *data*, so that the client also has these offsets.
        """
        key = _key(asked)
        if key not in self.requested:
            return False  # another connection has removed the partition meanwhile
        offsets = _UNKNOWN if data.error_code else (data.high_watermark, data.log_start_offset)
        changed = bool(data.error_code or data.records) or self._sent.get(key, _UNKNOWN) != offsets
        self._sent[key] = offsets
        if data.records:
            self.requested.move_to_end(key)
        return changed


class FetchContext(NamedTuple):
    """The partitions from which a request fetches, and the fetch session of the request, if it has one.

    If ``incremental`` is true, the response contains only the partitions that have changed since the last
    response of the session.
    """

    requested: list[RequestedPartition]
    session: FetchSession | None = None
    incremental: bool = False

    def includes(self, asked: RequestedPartition, data: PartitionData) -> bool:
        """Return True if the response must contain *data*, the result of fetching *asked*.

        If ``incremental`` is true, the result is True only if *data* has changed since the session's last
        response.
        """
        if self.session is None:
            return True
        return self.session.has_changed(asked, data) or not self.incremental

    @property
    def session_id(self) -> int:
        """The id of the fetch session for the response; 0 means that there is no session."""
        return _NO_SESSION if self.session is None else self.session.session_id


class FetchSessionCache:
    """All fetch sessions of a node: at most *slots* sessions, with at most *max_partitions* partitions in all
    sessions together."""

    def __init__(self, slots: int, max_partitions: int) -> None:
        self._slots = slots
        self._max_partitions = max_partitions
        self._partitions = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def context(self, request: FetchRequest, version: int) -> FetchContext:
        """Return the context of *request*: the partitions to fetch from, and its fetch session. Open,
        continue or close the session as the request asks.

        Raises ApiError with FETCH_SESSION_ID_NOT_FOUND if the session does not exist, and with
        INVALID_FETCH_SESSION_EPOCH if the request has another epoch than the session. Raises ApiError with
        FETCH_SESSION_TOPIC_ID_ERROR if the request identifies topics by name and the session by id, or the
        other way round.
        """
        by_id = version >= _TOPIC_IDS
        if request.session_epoch <= _FIRST_EPOCH:
            self._close(request.session_id)
            requested = list(_named(request))
            if request.session_epoch < _FIRST_EPOCH:
                return FetchContext(requested)
            return FetchContext(requested, self._open(requested, by_id=by_id))
        session = self._sessions.get(request.session_id)
        if session is None:
            raise ApiError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND, f"fetch session {request.session_id} does not exist"
            )
        if session.epoch != request.session_epoch:
            raise ApiError(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"fetch session {request.session_id} is at epoch {session.epoch}, but the request names "
                f"epoch {request.session_epoch}",
            )
        if session.by_id != by_id:
            raise ApiError(
                ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
                f"fetch session {request.session_id} identifies topics by "
                f"{'id' if session.by_id else 'name'}, but the request identifies them by "
                f"{'id' if by_id else 'name'}",
            )
        return self._continue(session, request)

    def _continue(self, session: FetchSession, request: FetchRequest) -> FetchContext:
        before = len(session.requested)
        session.update(request)
        self._partitions += len(session.requested) - before
        self._sessions.move_to_end(session.session_id)
        requested = list(session.requested.values())
        if not requested:
            self._close(session.session_id)
            return FetchContext(requested)
        self._evict()
        if session.session_id not in self._sessions:  # it is too large by itself
            raise ApiError(
                ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
                f"fetch session {session.session_id} has more than "
                f"{counted(self._max_partitions, 'partition')}",
            )
        return FetchContext(requested, session, incremental=True)

    def _open(self, requested: list[RequestedPartition], *, by_id: bool) -> FetchSession | None:
        """Return a new fetch session; None if it would be empty or too large for the cache. *by_id* is true
        if its requests name topics by their ids."""
        if not requested or len(requested) > self._max_partitions or not self._slots:
            return None
        session_id = random.randint(1, _LAST_EPOCH)
        while session_id in self._sessions:
            session_id = random.randint(1, _LAST_EPOCH)
        session = FetchSession(session_id, requested, by_id=by_id)
        self._sessions[session_id] = session
        self._partitions += len(session.requested)
        self._evict()
        return session

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.requested)

    def _evict(self) -> None:
        """Close the least recently used sessions until the cache is within its limits."""
        while len(self._sessions) > self._slots or self._partitions > self._max_partitions:
            self._close(next(iter(self._sessions)))


def _named(request: FetchRequest) -> Iterator[RequestedPartition]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield RequestedPartition(topic.topic, topic.topic_id, partition)


def _key(requested: RequestedPartition) -> _Key:
    return requested.topic, requested.topic_id, requested.partition.partition

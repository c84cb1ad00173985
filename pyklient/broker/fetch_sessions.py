"""Fetch sessions (KIP-227): what a client was told and has asked for, so that its next request need not
repeat it, and an answer leaves out what has not changed.

Sessions are kept until their client closes them or more are wanted than fit; then the one that has not been
used for the longest time goes, and its client, told so, opens another.
"""

import random
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from pyklient.broker.api_errors import Refusal
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import FetchRequest, FetchResponse

__all__ = ["Answer", "FetchSession", "FetchSessions", "Partition", "Ticket", "Wanted"]

_NO_SESSION: Final = 0
_FIRST_EPOCH: Final = 0
_LAST_EPOCH: Final = 2**31 - 1
_TOPIC_IDS: Final = 13

Partition: TypeAlias = FetchRequest.FetchTopic.FetchPartition
Answer: TypeAlias = FetchResponse.FetchableTopicResponse.PartitionData


class Wanted(NamedTuple):
    """One partition that is asked for, by name or by id."""

    topic: str
    topic_id: bytes
    partition: Partition


_Key: TypeAlias = tuple[str, bytes, int]
_NEVER_TOLD: Final = (-1, -1)


class FetchSession:
    """One client's partitions, in the order in which they are to be served: those that had data go last."""

    __slots__ = ("_told", "by_id", "epoch", "session_id", "wanted")

    def __init__(self, session_id: int, wanted: list[Wanted], *, by_id: bool) -> None:
        self.session_id = session_id
        self.by_id = by_id
        self.epoch = 1
        """What the next request must say."""
        self.wanted: OrderedDict[_Key, Wanted] = OrderedDict((_key(each), each) for each in wanted)
        self._told: dict[_Key, tuple[int, int]] = {}

    def update(self, request: FetchRequest) -> None:
        """Take in what *request* names, and let go of what it forgets."""
        for each in _named(request):
            self.wanted[_key(each)] = each
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                key = (topic.topic, topic.topic_id, index)
                self.wanted.pop(key, None)
                self._told.pop(key, None)
        self.epoch = self.epoch + 1 if self.epoch < _LAST_EPOCH else 1

    def news(self, asked: Wanted, answer: Answer) -> bool:
        """Whether the client has to hear *answer*: records, an error, or a watermark it does not know."""
        key = _key(asked)
        if key not in self.wanted:
            return False  # forgotten meanwhile, over another connection
        told = _NEVER_TOLD if answer.error_code else (answer.high_watermark, answer.log_start_offset)
        changed = bool(answer.error_code or answer.records) or self._told.get(key, _NEVER_TOLD) != told
        self._told[key] = told
        if answer.records:
            self.wanted.move_to_end(key)
        return changed


class Ticket(NamedTuple):
    """What a request comes to: the partitions to look at, and the session that they belong to."""

    wanted: list[Wanted]
    session: FetchSession | None = None
    incremental: bool = False
    """Whether only news go into the answer."""

    def report(self, asked: Wanted, answer: Answer) -> bool:
        """Note *answer* as told. → whether it goes into the response."""
        if self.session is None:
            return True
        return self.session.news(asked, answer) or not self.incremental

    @property
    def session_id(self) -> int:
        """What the response says; 0 for no session."""
        return _NO_SESSION if self.session is None else self.session.session_id


class FetchSessions:
    """All sessions of a broker: *slots* of them at most, with *most_partitions* in all together."""

    def __init__(self, slots: int, most_partitions: int) -> None:
        self._slots = slots
        self._most_partitions = most_partitions
        self._partitions = 0
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def admit(self, request: FetchRequest, version: int) -> Ticket:
        """What *request* asks for, its session opened, continued or closed as it says.

        Raises Refusal: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH,
        FETCH_SESSION_TOPIC_ID_ERROR.
        """
        by_id = version >= _TOPIC_IDS
        if request.session_epoch <= _FIRST_EPOCH:
            self._close(request.session_id)
            wanted = list(_named(request))
            if request.session_epoch < _FIRST_EPOCH:
                return Ticket(wanted)
            return Ticket(wanted, self._open(wanted, by_id=by_id))
        session = self._sessions.get(request.session_id)
        if session is None:
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "there is no such session (any more)")
        if session.epoch != request.session_epoch:
            raise Refusal(
                ErrorCode.INVALID_FETCH_SESSION_EPOCH,
                f"the session is at epoch {session.epoch}, not {request.session_epoch}",
            )
        if session.by_id != by_id:
            raise Refusal(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, "the session names topics in the other way")
        return self._go_on(session, request)

    def _go_on(self, session: FetchSession, request: FetchRequest) -> Ticket:
        before = len(session.wanted)
        session.update(request)
        self._partitions += len(session.wanted) - before
        self._sessions.move_to_end(session.session_id)
        wanted = list(session.wanted.values())
        if not wanted:
            self._close(session.session_id)
            return Ticket(wanted)
        self._make_room()
        if session.session_id not in self._sessions:  # it alone is too large
            raise Refusal(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, "the session has too many partitions")
        return Ticket(wanted, session, incremental=True)

    def _open(self, wanted: list[Wanted], *, by_id: bool) -> FetchSession | None:
        """A new session, None where it is not worth one, or does not fit."""
        if not wanted or len(wanted) > self._most_partitions or not self._slots:
            return None
        session_id = random.randint(1, _LAST_EPOCH)
        while session_id in self._sessions:
            session_id = random.randint(1, _LAST_EPOCH)
        session = FetchSession(session_id, wanted, by_id=by_id)
        self._sessions[session_id] = session
        self._partitions += len(session.wanted)
        self._make_room()
        return session

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            self._partitions -= len(session.wanted)

    def _make_room(self) -> None:
        """Let go of the sessions that have not been used for the longest time, until the rest fit."""
        while len(self._sessions) > self._slots or self._partitions > self._most_partitions:
            self._close(next(iter(self._sessions)))


def _named(request: FetchRequest) -> Iterator[Wanted]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield Wanted(topic.topic, topic.topic_id, partition)


def _key(wanted: Wanted) -> _Key:
    return wanted.topic, wanted.topic_id, wanted.partition.partition

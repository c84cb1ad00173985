"""Incremental fetch sessions (KIP-227).

The leader remembers which partitions a consumer fetches. So a request names only the partitions that have
changed since the last request, and a response contains only those with new records. The fetcher sends the
requests, receives the responses, and tells the FetchSession the results.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import FetchRequest, FetchResponse
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.topic_partition import TopicPartition

__all__ = ["FetchSession", "Wanted", "name_all", "next_epoch"]

_NO_SESSION = 0
_OPENING = 0
_WITHOUT = -1
_LAST_EPOCH = 2**31 - 1
_CURED_BY_NEW_SESSION = {
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
}


class Wanted(NamedTuple):
    """The part of a fetch request for one partition: the offset to begin at, and the largest number of
    bytes."""

    fetch_offset: int
    max_bytes: int
    leader_epoch: int = -1
    topic_id: bytes = ZERO_UUID


class FetchSession:
    """The fetch session of one fetcher with its leader. Only the fetcher's thread uses it.

    Every request is filled in by :meth:`fill`, and exactly one call of :meth:`accept`, :meth:`accept_error`
    or :meth:`restart` follows.
    """

    def __init__(self) -> None:
        self._id = _NO_SESSION
        self._epoch = _OPENING
        self._by_id = False
        self._known: dict[TopicPartition, Wanted] = {}

    def fill(
        self,
        request: FetchRequest,
        wanted: Mapping[TopicPartition, Wanted],
        changed: Collection[TopicPartition] | None = None,
        *,
        by_id: bool = False,
    ) -> None:
        """Fill in *request*, so that the leader sends records of the partitions in *wanted* and of no others.

        *changed* has the partitions whose entries in *wanted* may have changed since the last call; None
        stands for all partitions. *by_id* is true if the request names topics by their ids only (in version
        13 and later). A session has either names or ids, so a change from one to the other opens another
        session.
        """
        if by_id != self._by_id:
            self.restart()
            self._by_id = by_id
        named: Mapping[TopicPartition, Wanted]
        forgotten: Mapping[TopicPartition, Wanted]
        if self._epoch == _OPENING:
            named, forgotten = wanted, {}
            self._known = dict(wanted)
        else:
            named, forgotten = self._difference(wanted, changed, by_id)
        request.session_id, request.session_epoch = self._id, self._epoch
        request.topics = _topics(named)
        request.forgotten_topics_data = _forgotten(forgotten) if forgotten else []

    def _difference(
        self, wanted: Mapping[TopicPartition, Wanted], changed: Collection[TopicPartition] | None, by_id: bool
    ) -> tuple[Mapping[TopicPartition, Wanted], Mapping[TopicPartition, Wanted]]:
        """Return two mappings: the entries of *wanted* that are new or have changed, and the earlier entries
        that are not in *wanted* any more. Remember *wanted* for the next call. *by_id* is true if the request
        names topics by their ids."""
        known = self._known
        named: dict[TopicPartition, Wanted] = {}
        forgotten: dict[TopicPartition, Wanted] = {}
        for where in {**wanted, **known} if changed is None else changed:
            before, want = known.get(where), wanted.get(where)
            if before == want:
                continue
            if want is not None:
                named[where] = known[where] = want
            if before is not None and (want is None or (by_id and want.topic_id != before.topic_id)):
                forgotten[where] = before
                if want is None:
                    del known[where]
        return named, forgotten

    def accept(self, response: FetchResponse) -> None:
        """Update the session from *response*, which must have no error for the request as a whole."""
        self._id = response.session_id
        if self._id == _NO_SESSION:  # the broker keeps none, or is from before sessions
            self._epoch = _OPENING
        else:
            self._epoch = next_epoch(self._epoch)

    def accept_error(self, code: int) -> bool:
        """Update the session after the broker has answered the last request with the error *code*.

        Return True if the request should be sent again at once, in a new session.
        """
        cured = self._epoch != _OPENING and code in _CURED_BY_NEW_SESSION
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = _NO_SESSION
        self.restart()
        return cured

    def restart(self) -> None:
        """Begin a new session, because no response came or the connection is new.

        The next request names all partitions, and opens a session in place of this one.
        """
        self._epoch = _OPENING


def next_epoch(epoch: int) -> int:
    """Return the session epoch that follows *epoch*. The session epoch numbers the requests of a fetch
    session. It is never 0, because 0 would open a new session."""
    return epoch + 1 if epoch < _LAST_EPOCH else 1


def name_all(request: FetchRequest, wanted: Mapping[TopicPartition, Wanted]) -> None:
    """Write all partitions in *wanted* into *request*, which then belongs to no session."""
    request.session_id, request.session_epoch = _NO_SESSION, _WITHOUT
    request.topics = _topics(wanted)


def _topics(wanted: Mapping[TopicPartition, Wanted]) -> list[FetchRequest.FetchTopic]:
    topics: dict[tuple[str, bytes], FetchRequest.FetchTopic] = {}
    for (name, partition), want in wanted.items():
        topic = topics.setdefault(
            (name, want.topic_id), FetchRequest.FetchTopic(topic=name, topic_id=want.topic_id)
        )
        topic.partitions.append(
            FetchRequest.FetchPartition(
                partition=partition,
                current_leader_epoch=want.leader_epoch,
                fetch_offset=want.fetch_offset,
                partition_max_bytes=want.max_bytes,
            )
        )
    return list(topics.values())


def _forgotten(known: Mapping[TopicPartition, Wanted]) -> list[FetchRequest.ForgottenTopic]:
    by_topic: dict[tuple[str, bytes], list[int]] = {}
    for (name, partition), want in known.items():
        by_topic.setdefault((name, want.topic_id), []).append(partition)
    return [
        FetchRequest.ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
        for (name, topic_id), partitions in by_topic.items()
    ]

"""A member of a group, and the requests and responses by which it joins the group and gets its assignment."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from pyklient.broker.groups.timers import Timer
from pyklient.error_codes import ErrorCode

__all__ = ["JoinRequest", "JoinResult", "Member", "SyncRequest", "SyncResult"]


class JoinResult(NamedTuple):
    """The response to a JoinGroup request. In the response to the leader, ``members`` has a tuple (member id,
    instance id, metadata) for each member. In the responses to other members, ``members`` is empty."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


class SyncRequest(NamedTuple):
    """A SyncGroup request. In the request of the group's leader, ``assignments`` maps the id of each member
    to its assignment. In the requests of other members, ``assignments`` is empty."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: Mapping[str, bytes]


class SyncResult(NamedTuple):
    """The response to a SyncGroup request."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(slots=True, kw_only=True)
class Member:
    """One member of a group. ``protocols`` has (name, metadata) pairs, the preferred protocol first."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    answer_join: Callable[[JoinResult], object] | None = field(default=None, repr=False)
    answer_sync: Callable[[SyncResult], object] | None = field(default=None, repr=False)
    session: Timer | None = field(default=None, repr=False)

    def metadata_for(self, protocol: str) -> bytes:
        """Return the metadata that the member sent for *protocol*; empty if the member does not support
        it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """Return the protocol among *candidates* that the member prefers."""
        return next(name for name, _ in self.protocols if name in candidates)

    def reply_join(self, result: JoinResult) -> None:
        """Send *result* to the member if a JoinGroup request of the member waits for a response."""
        callback, self.answer_join = self.answer_join, None
        if callback is not None:
            callback(result)

    def reply_sync(self, result: SyncResult) -> None:
        """Send *result* to the member if a SyncGroup request of the member waits for a response."""
        callback, self.answer_sync = self.answer_sync, None
        if callback is not None:
            callback(result)

    def stop_session(self) -> None:
        """Stop the timer of the member's session time-out."""
        if self.session is not None:
            self.session.cancel()
            self.session = None


class JoinRequest(NamedTuple):
    """A JoinGroup request, and the client id and host of the client that sent it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    requires_known_member_id: bool = False
    supports_skipping_assignment: bool = False

    def new_member(self, member_id: str) -> Member:
        """Return a new member with *member_id* and the properties that this request names."""
        return Member(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
        )

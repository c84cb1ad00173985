"""A group's members: what each of them told the coordinator, and the answers each of them waits for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from pyklient.error_codes import ErrorCode

__all__ = ["Cancellable", "JoinAsked", "Joined", "Member", "Synced", "Timers"]


class Cancellable(Protocol):
    """A timer that has been set."""

    def cancel(self) -> None: ...


class Timers(Protocol):
    """The clock of a group. The broker's event loop is one; tests turn the hands of another."""

    def call_later(self, delay: float, callback: Callable[[], object], /) -> Cancellable:
        """Run *callback* in *delay* seconds."""
        ...


class Joined(NamedTuple):
    """The answer to JoinGroup. The leader gets ``members``: (member id, instance id, metadata)."""

    error: ErrorCode
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skip_assignment: bool = False


class Synced(NamedTuple):
    """The answer to SyncGroup."""

    error: ErrorCode
    assignment: bytes = b""
    protocol_type: str | None = None
    protocol: str | None = None


@dataclass(slots=True, kw_only=True)
class Member:
    """One member. ``protocols`` are (name, metadata) in the order of its preference."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    answer_join: Callable[[Joined], object] | None = field(default=None, repr=False)
    answer_sync: Callable[[Synced], object] | None = field(default=None, repr=False)
    session: Cancellable | None = field(default=None, repr=False)

    def metadata_for(self, protocol: str) -> bytes:
        """What the member said under *protocol* (empty when it does not know it)."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str:
        """The one of *candidates* that the member likes best."""
        return next(name for name, _ in self.protocols if name in candidates)

    def reply_join(self, answer: Joined) -> None:
        """Answer the member's JoinGroup, if one waits."""
        callback, self.answer_join = self.answer_join, None
        if callback is not None:
            callback(answer)

    def reply_sync(self, answer: Synced) -> None:
        """Answer the member's SyncGroup, if one waits."""
        callback, self.answer_sync = self.answer_sync, None
        if callback is not None:
            callback(answer)

    def stop_timer(self) -> None:
        if self.session is not None:
            self.session.cancel()
            self.session = None


class JoinAsked(NamedTuple):
    """A JoinGroup request, as the group sees it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: list[tuple[str, bytes]]
    needs_known_id: bool = False
    can_skip_assignment: bool = False

    def member(self, member_id: str) -> Member:
        """A new member under *member_id*."""
        return Member(
            member_id=member_id,
            instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            session_timeout_ms=self.session_timeout_ms,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            protocols=self.protocols,
        )

"""The members of one group, the member that leads it, and the protocols that all members support."""

from collections import Counter
from collections.abc import Iterator, Mapping

from pyklient.broker.api_errors import ApiError
from pyklient.broker.groups.member import JoinRequest, Member
from pyklient.error_codes import ErrorCode

__all__ = ["GroupMembers"]


class GroupMembers(Mapping[str, Member]):
    """The members of one group by member id, in the order in which they joined.

    ``leader_id`` is the member id of the leader.
    """

    def __init__(self) -> None:
        self.leader_id: str | None = None
        self._by_id: dict[str, Member] = {}
        self._static: dict[str, str] = {}

    def __getitem__(self, member_id: str) -> Member:
        return self._by_id[member_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def static_member(self, instance_id: str | None) -> Member | None:
        """Return the member whose ``group.instance.id`` is *instance_id*, or None."""
        member_id = None if instance_id is None else self._static.get(instance_id)
        return None if member_id is None else self._by_id[member_id]

    def identify(self, member_id: str, instance_id: str | None) -> Member:
        """Return the member that sent a request with *member_id* and *instance_id*.

        Raises ApiError: UNKNOWN_MEMBER_ID if the group has no such member, or FENCED_INSTANCE_ID if a newer
        member has the same instance id.
        """
        if instance_id is not None:
            current = self._static.get(instance_id)
            if current is not None and member_id and current != member_id:
                raise ApiError(
                    ErrorCode.FENCED_INSTANCE_ID,
                    f"a newer member of the group has the same instance id {instance_id!r}",
                )
            member_id = current or ""
        member = self._by_id.get(member_id)
        if member is None:
            raise ApiError(ErrorCode.UNKNOWN_MEMBER_ID, f"the group has no member {member_id!r}")
        return member

    def add(self, member: Member) -> None:
        """Add a member. The member becomes the leader if the group has none."""
        self._by_id[member.member_id] = member
        if member.instance_id is not None:
            self._static[member.instance_id] = member.member_id
        self.leader_id = self.leader_id or member.member_id

    def remove(self, member: Member) -> None:
        """Remove a member. If it was the leader, the member that joined first becomes the leader."""
        del self._by_id[member.member_id]
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader_id == member.member_id:
            self.leader_id = next(iter(self._by_id), None)

    def replace(self, old: Member, new: Member) -> None:
        """Replace *old* by *new*, which is the same static member after a restart.

        If *old* was the leader, *new* becomes the leader.
        """
        del self._by_id[old.member_id]
        self._by_id[new.member_id] = new
        assert new.instance_id is not None
        self._static[new.instance_id] = new.member_id
        if self.leader_id == old.member_id:
            self.leader_id = new.member_id

    def check_protocols(self, request: JoinRequest, protocol_type: str | None) -> None:
        """Raise ApiError (INCONSISTENT_GROUP_PROTOCOL) if *request* does not offer a protocol that all other
        members support.

        *protocol_type* is the protocol type of the group; the request must have the same type if there are
        other members.
        """
        others = [member for member in self.values() if member.member_id != request.member_id]
        names = {name for name, _ in request.protocols}
        for member in others:
            names &= {name for name, _ in member.protocols}
        if not names or not request.protocol_type or (others and request.protocol_type != protocol_type):
            raise ApiError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                "the member that joins and the members of the group have no protocol in common",
            )

    def select_protocol(self) -> str:
        """Return the protocol that the group will use. All members support this protocol, and most members
        prefer it.

        If two protocols have equally many votes, the member that joined first decides.
        """
        voters = list(self.values())
        candidates = set.intersection(*({name for name, _ in member.protocols} for member in voters))
        votes = Counter(member.vote(candidates) for member in voters)
        return votes.most_common(1)[0][0]

    def subscriptions(self, protocol: str) -> tuple[tuple[str, str | None, bytes], ...]:
        """Return a tuple (member id, instance id, metadata for *protocol*) for each member. The leader of the
        group needs these tuples to assign the partitions."""
        return tuple((m.member_id, m.instance_id, m.metadata_for(protocol)) for m in self.values())

    def longest_rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.values()), default=0)

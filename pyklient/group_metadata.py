"""GroupMetadata, by which a transaction that commits offsets names a member of a group (KIP-447)."""

from dataclasses import dataclass

__all__ = ["GroupMetadata"]


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A group, and the group's member that commits offsets in a transaction.

    The group coordinator refuses the offsets if the group has begun another generation since, so a member
    that has lost its partitions cannot commit them (KIP-447). With the default values, no member is named,
    and the group coordinator does not check who commits the offsets.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

"""GroupMetadata, which names the group and the member for which a transaction commits offsets (KIP-447)."""

from dataclasses import dataclass

__all__ = ["GroupMetadata"]


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A group, and the group's member that commits offsets in a transaction.

    The group coordinator refuses the offsets if *generation_id* is no longer the group's generation, so a
    member that has lost its partitions cannot commit them (KIP-447). With the default values, no member is
    named, and the group coordinator does not check who commits the offsets.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None

"""Finds out which member owned which partitions before a rebalance, from the data that the members themselves
send."""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from pyklient.assignors.assignor import LastAssignment, Partitions, Subscriber
from pyklient.topic_partition import TopicPartition

__all__ = ["OwnedClaims", "owned_claims"]


class OwnedClaims(NamedTuple):
    """The partitions that members owned before a rebalance, as the members say. If two members say that they
    owned the same partition, the member with the newer generation counts as its owner."""

    owned: dict[str, list[TopicPartition]]
    """The partitions that each member may keep. Partitions that no longer exist are left out."""
    disputed: Set[TopicPartition]
    """Partitions that two members say they owned in the same generation. Neither may keep them."""
    before: Mapping[TopicPartition, str]
    """The last owner of each partition in the generations before the newest one, as the members say. This
    member may have missed a rebalance, so another member may have got the partition since then."""


def owned_claims(
    members: Sequence[Subscriber], said: Mapping[str, LastAssignment], partitions: Partitions
) -> OwnedClaims:
    """Return the partitions that each member owned before the rebalance. *said* has the last assignment of
    each member, by member id, as the member itself has sent it."""
    owned: dict[str, list[TopicPartition]] = {}
    disputed: set[TopicPartition] = set()
    owner: dict[TopicPartition, Subscriber] = {}
    for member in members:
        mine = owned[member.member_id] = []
        claims = said[member.member_id]
        for each in claims.partitions:
            if not 0 <= each.partition < len(partitions.get(each.topic, ())):
                continue
            other = owner.get(each)
            if other is not None and claims.generation < other.generation:
                continue
            if other is not None and each in owned[other.member_id]:
                owned[other.member_id].remove(each)
            if other is not None and claims.generation == other.generation:
                disputed.add(each)
            else:
                mine.append(each)
            owner[each] = member
    newest = max((claims.generation for claims in said.values()), default=-1)
    before: dict[TopicPartition, tuple[int, str]] = {}
    for member in members:
        claims = said[member.member_id]
        if claims.generation < newest:
            for each in claims.partitions:
                if each not in before or claims.generation > before[each][0]:
                    before[each] = claims.generation, member.member_id
    return OwnedClaims(owned, disputed, {each: name for each, (_, name) in before.items()})

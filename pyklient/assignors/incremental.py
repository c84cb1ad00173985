"""The rule of incremental rebalances: a partition moves only after its owner has given it back (KIP-429)."""

from collections.abc import Collection, Mapping

from pyklient.assignors.assignor import Subscriber
from pyklient.topic_partition import TopicPartition

__all__ = ["leave_out_owned"]


def leave_out_owned(
    members: Collection[Subscriber], assigned: Mapping[str, Collection[TopicPartition]]
) -> dict[str, list[TopicPartition]]:
    """Return *assigned* without the partitions that move from one member to another, because their owners
    must give them back first."""
    kept = {each.member_id: each.owned.intersection(assigned.get(each.member_id, ())) for each in members}
    revoked = {where for each in members for where in each.owned - kept[each.member_id]}
    return {
        name: [where for where in partitions if where in kept[name] or where not in revoked]
        for name, partitions in assigned.items()
    }

"""The leader's part of a rebalance: it looks up the topics, and assigns their partitions to all members."""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence, Set

from pyklient.assignors.assignor import Assignor, Partitions, Subscriber
from pyklient.assignors.incremental import leave_out_owned
from pyklient.consumer.group.classic.member import Member
from pyklient.consumer.group.subscription import warn_of_missing_topics
from pyklient.counted import counted
from pyklient.errors import KafkaError, ProtocolError
from pyklient.net.dialogue import Dialogue, Refresh
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    JoinGroupResponse,
    SyncGroupRequest,
)
from pyklient.topic_partition import TopicPartition, numbers_by_topic

__all__ = ["assign_all"]

log = logging.getLogger("pyklient.consumer")


def assign_all(
    member: Member, joined: JoinGroupResponse
) -> Dialogue[list[SyncGroupRequest.SyncGroupRequestAssignment]]:
    """Assign the partitions to the members of the group, with the assignor that the group has chosen. Return
    the partitions of each member. *joined* is the response to the request to join of *member*, which is the
    group's leader."""
    subscribers = [
        _subscriber(each.member_id, each.metadata, each.group_instance_id) for each in joined.members
    ]
    _note_members(member, frozenset(each.member_id for each in subscribers))
    wanted = sorted(frozenset().union(*(each.topics for each in subscribers)))
    asks_for_all = member.selection.subscription.asks_for is None
    metadata: Metadata = yield Refresh(None if asks_for_all else wanted)
    partitions = _racks(metadata, wanted)
    member.watched = {topic: len(partitions[topic]) for topic in wanted}
    errors = metadata.topic_errors(wanted)
    for error in errors.values():
        log.warning(
            "group %s: the partitions of a topic are not assigned, because the brokers deny access to the "
            "topic: %s",
            member.group_id,
            error,
        )
    if missing := [topic for topic in wanted if not partitions[topic] and topic not in errors]:
        warn_of_missing_topics(member.group_id, missing)
    if joined.skip_assignment:
        # KIP-814: a static leader came back, and the group goes on with the assignment it has
        return []
    assignor = next(
        (each for each in member.assignors if each.name == joined.protocol_name), member.assignors[0]
    )
    assigned = _assigned(assignor, subscribers, partitions)
    return [
        SyncGroupRequest.SyncGroupRequestAssignment(member_id=member_id, assignment=_blob(each))
        for member_id, each in assigned.items()
    ]


def _assigned(
    assignor: Assignor, members: Sequence[Subscriber], partitions: Partitions
) -> Mapping[str, Collection[TopicPartition]]:
    """Return the partitions that *assignor* assigns to each member.

    With an incremental assignor, leave out the partitions that another member must give back first. Raises
    KafkaError if the assignor raises an exception, or returns a wrong result.
    """
    try:
        of_all = _checked(assignor.assign(members, partitions), members, partitions)
    except BaseException as error:  # also sys.exit(), which would only end this thread
        raise KafkaError(
            f"the assignor {assignor.name!r} could not assign the partitions of the group: {error!r}; "
            f"correct its method {type(assignor).__name__}.assign()"
        ) from error
    return leave_out_owned(members, of_all) if assignor.incremental else of_all


def _checked(
    assigned: Mapping[str, Iterable[TopicPartition]],
    members: Sequence[Subscriber],
    partitions: Partitions,
) -> dict[str, list[TopicPartition]]:
    """Check *assigned*, the result of an assignor, and return it as a list of partitions for each of
    *members*.

    Raises ValueError if *assigned* names a member or a partition that does not exist, or assigns a partition
    to two members.
    """
    if not isinstance(assigned, Mapping):
        raise TypeError(f"assign() returned {assigned!r}, not a mapping from member ids to partitions")
    if unknown := assigned.keys() - {each.member_id for each in members}:
        raise ValueError(f"assign() gives partitions to members that are not in the group: {sorted(unknown)}")
    owner: dict[TopicPartition, str] = {}
    for member_id, of_member in assigned.items():
        for topic, number in of_member:  # once only: of_member may be a generator
            if not 0 <= number < len(partitions.get(topic, ())):
                raise ValueError(f"assign() returned partition {topic}-{number}, which does not exist")
            other = owner.setdefault(TopicPartition(topic, number), member_id)
            if other != member_id:
                raise ValueError(f"assign() gives partition {topic}-{number} to both {other} and {member_id}")
    of_all: dict[str, list[TopicPartition]] = {each.member_id: [] for each in members}
    for partition, member_id in owner.items():
        of_all[member_id].append(partition)
    return of_all


def _racks(metadata: Metadata, topics: list[str]) -> Partitions:
    """Return the racks of the replicas of each partition of *topics*, by topic, from *metadata*."""
    found: dict[str, list[frozenset[str]]] = {}
    for topic in topics:
        info = metadata.topics.get(topic)
        found[topic] = [
            frozenset(
                node.rack
                for replica in partition.replicas
                if (node := metadata.nodes.get(replica)) is not None and node.rack is not None
            )
            for _, partition in sorted(info.partitions.items() if info is not None else ())
        ]
    return found


def _note_members(member: Member, names: Set[str]) -> None:
    """Log which members have joined and left the group since *member* was last the group's leader. *names*
    has the ids of all present members."""
    come, gone = sorted(names - member.members), sorted(member.members - names)
    log.info(
        "group %s, generation %d: this member is the leader, and assigns partitions to %s; new members: %s; "
        "members that have left: %s",
        member.group_id,
        member.generation,
        counted(len(names), "member"),
        ", ".join(come) or "none",
        ", ".join(gone) or "none",
    )
    member.members = names


def _subscriber(member_id: str, metadata: bytes, instance_id: str | None) -> Subscriber:
    try:
        subscription = ConsumerProtocolSubscription.decode_blob(metadata)
    except ProtocolError as error:
        log.warning(
            "group member %s gets no partitions, because its subscription cannot be parsed: %s",
            member_id,
            error,
        )
        return Subscriber(member_id, frozenset(), instance_id)
    owned = frozenset(
        TopicPartition(each.topic, partition)
        for each in subscription.owned_partitions
        for partition in each.partitions
    )
    return Subscriber(
        member_id,
        frozenset(subscription.topics),
        instance_id,
        owned=owned,
        generation=subscription.generation_id,
        rack=subscription.rack_id or None,
        user_data=subscription.user_data,
    )


def _blob(partitions: Collection[TopicPartition]) -> bytes:
    assigned = [
        ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in numbers_by_topic(partitions).items()
    ]
    return ConsumerProtocolAssignment(assigned_partitions=assigned).encode_blob(1)

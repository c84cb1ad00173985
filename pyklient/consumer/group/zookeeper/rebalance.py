"""The dialogues of a member with ZooKeeper: it adds its node to the group, reads the group, and rebalances.

The nodes, and the order in which they are written, are the same as in Scala's high-level consumer. Together,
the dialogues do the same as that consumer in a rebalance, except for three steps that are safer here:

- A member deletes only owner nodes that its own session has created.
- A member reads the committed offsets after it has become the owner, not before. The previous owner commits
  before it gives a partition back, so its last commit is not missed.
- A member that has lost its own node creates it again.
"""

import logging
from collections.abc import Collection, Mapping
from typing import NamedTuple

from pyklient.consumer.group.subscription import Subscription, warn_of_missing_topics
from pyklient.consumer.group.zookeeper.partition_ownership import become_owner, release
from pyklient.consumer.group.zookeeper.thread_assignment import has_identical_threads
from pyklient.consumer.group.zookeeper.thread_ids import ThreadId
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.consumer.topic_filters.topic_filter import Blacklist, TopicFilter, Whitelist
from pyklient.errors import ConfigurationError, NodeExistsError
from pyklient.registry import paths
from pyklient.registry.broker_nodes import broker_ids
from pyklient.registry.consumer_nodes import ConsumerNode, consumer_content, parse_consumer
from pyklient.registry.node_content import garbled, now_ms
from pyklient.registry.requests import (
    Children,
    Create,
    Delete,
    Read,
    RegistryDialogue,
    all_answers,
)
from pyklient.registry.topic_nodes import parse_topic
from pyklient.topic_partition import TopicPartition

__all__ = [
    "GroupView",
    "add_member",
    "read_group",
    "rebalance",
    "renew_member",
    "withdraw",
]

log = logging.getLogger("pyklient.consumer")

_FILTERS: Mapping[str, type[TopicFilter]] = {each.kind: each for each in (Whitelist, Blacklist)}


class GroupView(NamedTuple):
    """The content of a group in ZooKeeper at one time. All members compute the assignment from it."""

    threads: Mapping[str, list[ThreadId]]
    """For each topic, the threads of all members that read the topic. A thread stands for one stream of a
    member."""
    partitions: Mapping[str, list[int]]
    """The numbers of the partitions of each topic in ``threads``."""
    has_brokers: bool
    """True if at least one broker is registered in ZooKeeper."""

    def assigned_to(self, member: ZooKeeperMember) -> dict[TopicPartition, ThreadId]:
        """Return the partitions that the assignor assigns to *member*, each with the thread (the stream of
        the member) to which it is assigned."""
        found = member.assign(self.threads, self.partitions)
        return {each: thread for each, thread in found.items() if thread.consumer_id == member.consumer_id}


def add_member(member: ZooKeeperMember) -> RegistryDialogue[bool]:
    """Create the node of *member*. Return False if another session has a node of the same name."""
    path = paths.consumer(member.group_id, member.consumer_id)
    try:
        yield Create(path, _registration(member.subscription), ephemeral=True)
    except NodeExistsError:
        node = yield Read(path)
        return node is not None and node.mine  # this session created it, and did not hear of that
    return True


def renew_member(member: ZooKeeperMember) -> RegistryDialogue[bool]:
    """Delete the node of *member* and create it again, because its subscription has changed.

    Other members are told when a node is created or deleted, but not when its content changes. Return False
    and change nothing if another session has a node of the same name.
    """
    path = paths.consumer(member.group_id, member.consumer_id)
    node = yield Read(path)
    if node is not None:
        if not node.mine:
            return False
        yield Delete(path)
    return (yield from add_member(member))


def read_group(member: ZooKeeperMember) -> RegistryDialogue[GroupView]:
    """Read the group of *member*, and return its content: its members, their topics, the partitions of these
    topics, and the brokers.

    ZooKeeper will tell the member of the next change of any of these. Topics that *member* names and that do
    not exist are logged. Raises RegistryError if another session has a node of the member's name.
    """
    brokers, members = yield from all_answers(
        [Children(paths.BROKER_IDS, watch=True), Children(paths.consumer_ids(member.group_id), watch=True)]
    )
    subscriptions = yield from _read_subscriptions(member, members or ())
    if member.consumer_id not in subscriptions:
        log.warning(
            "group %s: the node of member %s was deleted, so the member creates it again",
            member.group_id,
            member.consumer_id,
        )
        if not (yield from add_member(member)):
            raise member.name_taken()
        subscriptions[member.consumer_id] = member.subscription
    named = {topic for each in subscriptions.values() for topic in each.named}
    topics = set(named)
    if any(each.topic_filter is not None for each in subscriptions.values()):
        topics.update((yield Children(paths.TOPICS, watch=True)) or ())
    threads: dict[str, list[ThreadId]] = {}
    for topic in sorted(topics):
        of_topic = [
            ThreadId(consumer_id, stream)
            for consumer_id, each in subscriptions.items()
            if each.selects(topic)
            for stream in range(each.stream_count(topic))
        ]
        if of_topic:
            threads[topic] = of_topic
    nodes = yield from all_answers(
        Read(paths.topic(topic), watch=True, may_come=topic in named) for topic in threads
    )
    partitions = {
        topic: [] if node is None else sorted(parse_topic(topic, node.content).replicas)
        for topic, node in zip(threads, nodes, strict=True)
    }
    _warn_of_missing_topics(member, partitions)
    return GroupView(threads, partitions, bool(broker_ids(brokers)))


def _read_subscriptions(
    member: ZooKeeperMember, members: Collection[str]
) -> RegistryDialogue[dict[str, Subscription]]:
    """Return the subscription of each of the *members* of the group. A member that leaves meanwhile is left
    out."""
    group_id = member.group_id
    nodes = yield from all_answers(
        Read(paths.consumer(group_id, each), watch=True, may_come=False) for each in members
    )
    found: dict[str, Subscription] = {}
    for consumer_id, node in zip(members, nodes, strict=True):
        if node is not None:
            if consumer_id == member.consumer_id and not node.mine:
                raise member.name_taken()
            consumer = parse_consumer(group_id, consumer_id, node.content)
            found[consumer_id] = _subscription(member, consumer_id, consumer, node.content)
    return found


def _subscription(
    member: ZooKeeperMember, consumer_id: str, consumer: ConsumerNode, content: bytes
) -> Subscription:
    """Return the subscription of the member *consumer_id*, whose node contains *consumer*. *content* is the
    content of the node as bytes, for the text of an error.

    The node does not say if the member's filter selects internal topics of brokers. Assume that the filters
    of all members do the same as the filter of *member*. Scala's consumer assumes this too.
    """
    kind = _FILTERS.get(consumer.pattern)
    if kind is None:
        return Subscription(consumer.subscription)
    [(pattern, streams)] = consumer.subscription.items()
    try:
        topic_filter = kind(pattern)
    except ConfigurationError as error:
        raise garbled(paths.consumer(member.group_id, consumer_id), content, str(error)) from None
    return Subscription(
        topic_filter=topic_filter,
        shared_streams=streams,
        hides_internal=member.subscription.hides_internal,
    )


def withdraw(member: ZooKeeperMember) -> RegistryDialogue[None]:
    """Delete all nodes of *member*, because it cannot continue. Other members can then read its
    partitions."""
    yield from release(member)
    path = paths.consumer(member.group_id, member.consumer_id)
    node = yield Read(path)
    if node is not None and node.mine:
        yield Delete(path)


def rebalance(member: ZooKeeperMember) -> RegistryDialogue[Mapping[TopicPartition, ThreadId] | None]:
    """Delete the owner nodes of *member*, read the group, compute the assignment, and create the new owner
    nodes.

    Return the partitions assigned to *member*, or None if other members own some of them.
    """
    yield from release(member)
    group = yield from read_group(member)
    if member.assignor == "roundrobin" and not has_identical_threads(group.threads):
        log.warning(
            "group %s: the members subscribe to different topics, or have different numbers of streams. "
            "Scala consumers before 0.10.2 then cannot rebalance with "
            "partition_assignment_strategy='roundrobin', which this group uses",
            member.group_id,
        )
    assigned = group.assigned_to(member)
    return assigned if (yield from become_owner(member, assigned)) else None


def _warn_of_missing_topics(member: ZooKeeperMember, partitions: Mapping[str, list[int]]) -> None:
    """Log the topics that do not exist although *member* subscribes to them by name. *partitions* has the
    partitions of each topic, and none for a topic that does not exist. Do not log a topic again while it
    stays missing."""
    before = member.missing
    member.missing = frozenset(topic for topic in member.subscription.named if not partitions.get(topic))
    if missing := sorted(member.missing - before):
        warn_of_missing_topics(member.group_id, missing)


def _registration(subscription: Subscription) -> bytes:
    """Return the content of the node by which a member registers its *subscription*."""
    if (topic_filter := subscription.topic_filter) is None:
        return consumer_content(ConsumerNode(subscription.named, timestamp_ms=now_ms()))
    return consumer_content(
        ConsumerNode({topic_filter.pattern: subscription.shared_streams}, topic_filter.kind, now_ms())
    )

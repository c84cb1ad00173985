"""The dialogues by which a member of a ZooKeeper group creates and deletes its owner nodes. The owner node of
a partition is a ZooKeeper node that names the owner of the partition.

The requests for the nodes of all partitions are sent together. Therefore a hundred partitions take little
longer than one, even if ZooKeeper is far away.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyklient.consumer.group.zookeeper.thread_ids import ThreadId
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.errors import KafkaError, NodeExistsError
from pyklient.registry import paths
from pyklient.registry.requests import (
    Create,
    Delete,
    Node,
    Read,
    RegistryDialogue,
    Together,
    all_answers,
)
from pyklient.topic_partition import TopicPartition

__all__ = ["become_owner", "release"]

log = logging.getLogger("pyklient.consumer")

_MOST_LISTED: Final = 5


def release(member: ZooKeeperMember) -> RegistryDialogue[None]:
    """Give the partitions of *member* back, by deleting its owner nodes."""
    owned = {each: _owner_path(member, each) for each in sorted(member.nodes)}
    nodes = yield from all_answers(Read(path) for path in owned.values())
    mine = [path for path, node in zip(owned.values(), nodes, strict=True) if node is not None and node.mine]
    yield from all_answers(Delete(path) for path in mine)
    member.nodes.difference_update(owned)


def become_owner(
    member: ZooKeeperMember, assigned: Mapping[TopicPartition, ThreadId]
) -> RegistryDialogue[bool]:
    """Create the owner nodes of the partitions *assigned*.

    Return True if this succeeds. If other members own some of these partitions, keep none of the nodes, and
    return False.
    """
    member.nodes.update(assigned)  # before the requests, whose outcome may remain unknown
    existing = yield from _create_owners(member, assigned)
    others = (yield from _replace_own(member, existing)) if existing else {}
    if not others:
        return True
    member.nodes.difference_update(others)
    member.waits_for = _listed([f"{_owner_path(member, each)} ({owner})" for each, owner in others.items()])
    log.info(
        "group %s: member %s waits for partitions that other members have not given back yet: %s",
        member.group_id,
        member.consumer_id,
        member.waits_for,
    )
    yield from release(member)
    return False


def _create_owners(
    member: ZooKeeperMember, wanted: Mapping[TopicPartition, ThreadId]
) -> RegistryDialogue[dict[TopicPartition, ThreadId]]:
    """Create the owner nodes of the partitions *wanted*. Return the partitions whose nodes exist already."""
    partitions = sorted(wanted)
    requests = [
        Create(_owner_path(member, each), str(wanted[each]).encode(), ephemeral=True) for each in partitions
    ]
    answers = (yield Together(tuple(requests))) if requests else ()
    existing = {}
    for each, answer in zip(partitions, answers, strict=True):
        if isinstance(answer, NodeExistsError):
            existing[each] = wanted[each]
        elif isinstance(answer, KafkaError):
            raise answer
    return existing


def _replace_own(
    member: ZooKeeperMember, existing: Mapping[TopicPartition, ThreadId]
) -> RegistryDialogue[dict[TopicPartition, str]]:
    """Replace the owner nodes that an earlier session of this member has created, for the partitions
    *existing*.

    Return the partitions in *existing* that other members own, with their owners. ZooKeeper will tell the
    member when one of these owner nodes is deleted.
    """
    nodes = yield from _read_owners(member, existing, watch=True)
    others: dict[TopicPartition, str] = {}
    to_create = {each: existing[each] for each, node in nodes.items() if node is None}
    former: list[Delete] = []
    for each, node in nodes.items():
        if node is None:
            continue
        if node.content != str(existing[each]).encode():
            others[each] = _owner(node)
        elif not node.mine:  # otherwise this session created it, and did not hear of that
            # The node would end with the former session of this member.
            former.append(Delete(_owner_path(member, each), node.version))
            to_create[each] = existing[each]
    yield from all_answers(former)
    if again := (yield from _create_owners(member, to_create)):
        nodes = yield from _read_owners(member, again)
        others.update((each, _owner(node)) for each, node in nodes.items())
    return others


def _read_owners(
    member: ZooKeeperMember, partitions: Iterable[TopicPartition], *, watch: bool = False
) -> RegistryDialogue[dict[TopicPartition, Node | None]]:
    partitions = tuple(partitions)
    nodes = yield from all_answers(Read(_owner_path(member, each), watch) for each in partitions)
    return dict(zip(partitions, nodes, strict=True))


def _owner(node: Node | None) -> str:
    return "gone by now" if node is None else node.content.decode(errors="replace")


def _owner_path(member: ZooKeeperMember, partition: TopicPartition) -> str:
    return paths.partition_owner(member.group_id, partition.topic, partition.partition)


def _listed(texts: Sequence[str]) -> str:
    """Return one text that contains the first few of *texts*, and the number of the others."""
    more = f" and {len(texts) - _MOST_LISTED} more" if len(texts) > _MOST_LISTED else ""
    return ", ".join(texts[:_MOST_LISTED]) + more

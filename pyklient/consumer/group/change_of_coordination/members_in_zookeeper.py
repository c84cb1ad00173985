"""Makes a member with ``coordination="kafka"`` wait until its group has no members that ZooKeeper
coordinates."""

from functools import partial
from typing import TYPE_CHECKING

from pyklient.consumer.group.change_of_coordination.end_of_members import await_end_of_members
from pyklient.registry import paths
from pyklient.registry.requests import Children, RegistryDialogue, RegistryPause

if TYPE_CHECKING:
    from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["wait_for_members_in_zookeeper"]


def wait_for_members_in_zookeeper(
    registry: "ZooKeeper", group_id: str, timeout: float, connection_timeout: float
) -> None:
    """Wait until the group *group_id* has no members in ZooKeeper. Raise KafkaTimeoutError after *timeout*
    seconds.

    Members that were killed count until ZooKeeper ends their sessions and deletes their nodes. Raises
    RegistryConnectionError if ZooKeeper cannot be reached within *connection_timeout* seconds.
    """
    look = partial(_members_in_zookeeper, group_id)
    if members := registry.play(look(), min(timeout, connection_timeout)):
        registry.play(
            await_end_of_members(group_id, "zookeeper", members, look, RegistryPause, timeout),
            timeout + connection_timeout,
        )


def _members_in_zookeeper(group_id: str) -> RegistryDialogue[list[str]]:
    return (yield Children(paths.consumer_ids(group_id))) or []

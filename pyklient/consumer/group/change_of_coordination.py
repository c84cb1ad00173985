"""The wait of a member of a Kafka group for members of the same group that ZooKeeper still coordinates.

If both kinds of members read at the same time, each partition is read twice. So a member that Kafka
coordinates, and that knows where ZooKeeper is, joins after the last member of the other kind has left.
"""

import logging
from typing import TYPE_CHECKING, Final

from pyklient.errors import KafkaTimeoutError
from pyklient.registry import paths
from pyklient.registry.requests import Children, Pause, RegistryDialogue

if TYPE_CHECKING:
    from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["await_end_of_members", "wait_until_left"]

log = logging.getLogger("pyklient.consumer")

_BETWEEN_LOOKS: Final = 0.2
_NAMED: Final = 5


def wait_until_left(registry: "ZooKeeper", group_id: str, timeout: float, connection_timeout: float) -> None:
    """Return when group *group_id* has no members in ZooKeeper. Raise KafkaTimeoutError after *timeout*
    seconds.

    Raises RegistryConnectionError if ZooKeeper, which knows the members, cannot be reached within
    *connection_timeout* seconds.
    """
    if registry.ask(Children(paths.consumer_ids(group_id)), min(timeout, connection_timeout)):
        registry.play(await_end_of_members(group_id, timeout), timeout + connection_timeout)


def await_end_of_members(group_id: str, timeout: float) -> RegistryDialogue[None]:
    """Look at the group again and again, until group *group_id* has no members in ZooKeeper.

    The node of a member that was killed is deleted when its session ends. If the group still has members
    after *timeout* seconds, raises KafkaTimeoutError, which names them.
    """
    waited = 0.0
    while members := (yield Children(paths.consumer_ids(group_id))):
        names = ", ".join(members[:_NAMED]) + (" …" if len(members) > _NAMED else "")
        if waited >= timeout:
            raise KafkaTimeoutError(
                f"group {group_id} still has members with coordination='zookeeper' after {timeout:.3g} s: "
                f"{names}. A member with coordination='kafka' would read the same partitions at the same "
                "time. Stop the other members, or increase default_api_timeout_ms to wait longer"
            )
        if not waited:
            log.info(
                "group %s: waiting for members with coordination='zookeeper' to leave: %s", group_id, names
            )
        yield Pause(_BETWEEN_LOOKS)
        waited += _BETWEEN_LOOKS

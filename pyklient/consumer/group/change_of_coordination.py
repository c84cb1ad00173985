"""The wait of a member of a Kafka group for members of the same group that ZooKeeper still coordinates.

If both kinds of members read at the same time, each partition is read twice. So a member that Kafka
coordinates, and that knows where ZooKeeper is, joins after the last member of the other kind has left.
"""

import logging
from typing import TYPE_CHECKING

from pyklient.errors import KafkaTimeoutError
from pyklient.registry import paths
from pyklient.registry.requests import Children, Pause, RegistryDialogue

if TYPE_CHECKING:
    from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["wait_until_left"]

log = logging.getLogger("pyklient.consumer")

_BETWEEN_LOOKS = 0.5


def wait_until_left(registry: "ZooKeeper", group_id: str, timeout: float) -> None:
    """Return when group *group_id* has no members in ZooKeeper. Raise KafkaTimeoutError after *timeout*
    seconds."""
    try:
        registry.play(_without_members(group_id), timeout)
    except KafkaTimeoutError as error:
        raise KafkaTimeoutError(
            f"group {group_id} still has members with coordination='zookeeper' after {timeout:.3g} s; a "
            "member with coordination='kafka' would read the same partitions at the same time. Stop the "
            "other members, or increase default_api_timeout_ms to wait longer"
        ) from error


def _without_members(group_id: str) -> RegistryDialogue[None]:
    told = False
    while members := (yield Children(paths.consumer_ids(group_id))):
        if not told:
            log.info(
                "group %s: waiting for members with coordination='zookeeper' to leave: %s",
                group_id,
                ", ".join(members),
            )
            told = True
        yield Pause(_BETWEEN_LOOKS)

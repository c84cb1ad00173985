"""Groups as the brokers describe them.

They are described with pyklient's own Admin: librdkafka ends the whole process with an assertion when a
coordinator goes away while it describes a group.
"""

from collections.abc import Mapping

from pyklient import Admin, BrokerError
from tests.servers.process import wait_until

__all__ = ["assignments", "committed", "coordinator", "wait_committed"]

_PATIENCE_MS = 20_000


def _admin(bootstrap_servers: str) -> Admin:
    return Admin(bootstrap_servers, client_id="tests", default_api_timeout_ms=_PATIENCE_MS)


def assignments(bootstrap_servers: str, group: str) -> dict[str, set[int]]:
    """Return the partitions of each member by client id while the group is stable; an empty dict while it is
    not."""
    with _admin(bootstrap_servers) as admin:
        try:
            described = admin.describe_group(group)
        except BrokerError as error:
            if error.name != "GROUP_ID_NOT_FOUND":
                raise
            return {}
    if described.state != "Stable":
        return {}
    return {
        member.client_id: {partition.partition for partition in member.assignment}
        for member in described.members
    }


def committed(bootstrap_servers: str, group: str, topic: str) -> dict[int, int]:
    """Return the committed offset of each partition that has one."""
    with _admin(bootstrap_servers) as admin:
        offsets = admin.group_offsets(group)
    return {where.partition: stored.offset for where, stored in offsets.items() if where.topic == topic}


def wait_committed(bootstrap_servers: str, group: str, topic: str, offsets: Mapping[int, int]) -> None:
    """Return when the committed offsets of *group* are exactly *offsets*, by partition."""
    wait_until(
        lambda: committed(bootstrap_servers, group, topic) == offsets, 60, f"{offsets} committed", poll=0.05
    )


def coordinator(bootstrap_servers: str, group: str) -> int:
    """Return the id of the broker that coordinates *group*."""
    with _admin(bootstrap_servers) as admin:
        return admin.describe_group(group).coordinator

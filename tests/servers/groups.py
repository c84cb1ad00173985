"""Groups as the brokers describe them.

Through pyklient's own Admin: librdkafka ends the whole process by an assertion when a coordinator goes away
while it describes a group.
"""

from pyklient import Admin, BrokerError

__all__ = ["assignments", "committed", "coordinator"]

_PATIENCE_MS = 20_000


def _admin(bootstrap_servers: str) -> Admin:
    return Admin(bootstrap_servers, client_id="tests", default_api_timeout_ms=_PATIENCE_MS)


def assignments(bootstrap_servers: str, group: str) -> dict[str, set[int]]:
    """Client id → partitions of each member, while the group is stable; empty while it is not."""
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
    """Partition → committed offset, of those that have one."""
    with _admin(bootstrap_servers) as admin:
        offsets = admin.group_offsets(group)
    return {where.partition: stored.offset for where, stored in offsets.items() if where.topic == topic}


def coordinator(bootstrap_servers: str, group: str) -> int:
    """The id of the broker that coordinates *group*."""
    with _admin(bootstrap_servers) as admin:
        return admin.describe_group(group).coordinator

"""Makes the metadata of a group's member, which a transaction sends with the offsets that it commits."""

from pyklient.config import ConsumerConfig
from pyklient.consumer.group.membership import Membership
from pyklient.consumer.group.standalone_membership import StandaloneMembership
from pyklient.consumer.owned_partitions import NOBODY, Assignment, Ownership
from pyklient.errors import CommitError, ConfigurationError
from pyklient.group_metadata import GroupMetadata

__all__ = ["check_in_kafka", "member_metadata"]


def member_metadata(config: ConsumerConfig, membership: Membership, ownership: Ownership) -> GroupMetadata:
    """Return the GroupMetadata of a client, as ``ConsumerConnector.group_metadata`` describes it.

    The generation is the one in which the client got the partitions that it owns now. The membership may
    already be in a later generation, while the client does not have the partitions of that generation yet.
    """
    group_id = config.group_id
    assert group_id is not None, "the caller has checked it"
    check_in_kafka(config)
    assignment = ownership.assignment or Assignment()
    if assignment.identity == NOBODY and not isinstance(membership, StandaloneMembership):
        # Without a member id, the coordinator would accept the offsets of partitions that others own now.
        if ownership.assignment is None:
            raise CommitError(
                f"the connector is not a member of group {group_id} yet: make its streams before you call "
                "group_metadata()"
            )
        raise CommitError(
            f"this connector is not a member of group {group_id} now, so it cannot commit offsets of the "
            "group: abort the transaction, and go on reading"
        )
    return GroupMetadata(group_id, *assignment.identity)


def check_in_kafka(config: ConsumerConfig) -> None:
    """Raise ConfigurationError unless the offsets of the group in *config* are in Kafka only."""
    if config.coordination != "kafka" or config.offset_storage != "kafka" or config.dual_commit:
        raise ConfigurationError(
            "a transaction commits offsets to Kafka only, so a connector with coordination, offsets_storage "
            "or dual_commit_enabled for ZooKeeper has no group metadata; remove these options"
        )

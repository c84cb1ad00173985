"""The class Admin, and the descriptions that its methods return."""

from pyklient.admin.admin import Admin
from pyklient.admin.descriptions import (
    ClusterDescription,
    GroupDescription,
    GroupListing,
    MemberDescription,
    PartitionDescription,
    PartitionLag,
    TopicDescription,
    ZooKeeperGroupDescription,
    ZooKeeperMemberDescription,
    ZooKeeperPartitionProgress,
)

__all__ = [
    "Admin",
    "ClusterDescription",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "PartitionDescription",
    "PartitionLag",
    "TopicDescription",
    "ZooKeeperGroupDescription",
    "ZooKeeperMemberDescription",
    "ZooKeeperPartitionProgress",
]

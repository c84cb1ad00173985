"""The class Admin, and the descriptions that its methods return."""

from pyklient.admin.admin import Admin
from pyklient.admin.descriptions import (
    ClusterDescription,
    GroupDescription,
    GroupListing,
    MemberDescription,
    OffsetChange,
    OffsetCopy,
    OffsetReset,
    PartitionDescription,
    PartitionLag,
    StoredOffsets,
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
    "OffsetChange",
    "OffsetCopy",
    "OffsetReset",
    "PartitionDescription",
    "PartitionLag",
    "StoredOffsets",
    "TopicDescription",
    "ZooKeeperGroupDescription",
    "ZooKeeperMemberDescription",
    "ZooKeeperPartitionProgress",
]

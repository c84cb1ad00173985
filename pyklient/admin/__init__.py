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
    OpenTransaction,
    PartitionDescription,
    PartitionLag,
    StoredOffsets,
    TopicDescription,
    TransactionDescription,
    ZooKeeperGroupDescription,
    ZooKeeperMemberDescription,
    ZooKeeperPartitionProgress,
)
from pyklient.net.lookups.open_transactions import TransactionListing

__all__ = [
    "Admin",
    "ClusterDescription",
    "GroupDescription",
    "GroupListing",
    "MemberDescription",
    "OffsetChange",
    "OffsetCopy",
    "OffsetReset",
    "OpenTransaction",
    "PartitionDescription",
    "PartitionLag",
    "StoredOffsets",
    "TopicDescription",
    "TransactionDescription",
    "TransactionListing",
    "ZooKeeperGroupDescription",
    "ZooKeeperMemberDescription",
    "ZooKeeperPartitionProgress",
]

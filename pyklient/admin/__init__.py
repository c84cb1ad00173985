"""Admin and the descriptions that it returns."""

from pyklient.admin.admin import Admin
from pyklient.admin.descriptions import (
    ClusterDescription,
    GroupDescription,
    GroupListing,
    MemberDescription,
    PartitionDescription,
    PartitionLag,
    TopicDescription,
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
]

"""A fixture of tests in which members join and leave while records flow."""

from collections.abc import Iterator

import pytest

from tests.servers.fixtures import NewName, NewTopic
from tests.system.flowing_group import FlowingGroup
from tools.faults.group import PARTITIONS


@pytest.fixture
def flowing_group(bootstrap: str, new_topic: NewTopic, new_name: NewName) -> Iterator[FlowingGroup]:
    """Return a new group that has no members yet. Members that have not left when the test ends leave
    then."""
    group = FlowingGroup(bootstrap, new_name(), new_topic(partitions=PARTITIONS))
    with group.members:
        yield group

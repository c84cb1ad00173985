"""Members of ZooKeeper groups to which the access list of a node gives no permission."""

import time

import pytest
from kazoo.security import ACL, Id

from pyklient.errors import AuthenticationError
from tests.consumer.group.zookeeper.planted import PlantedCluster

_READ, _ALL = 1, 31


@pytest.mark.parametrize(
    ("node", "forbidden", "permissions", "message"),
    [
        (
            "/consumers/g/owners",
            "could not create /consumers/g/owners/{topic}/[01]",
            _READ,
            "node /consumers/g/owners does not give the permission CREATE",
        ),
        (
            "/consumers/g/ids",
            "could not create /consumers/g/ids/g_a",
            _READ,
            "node /consumers/g/ids does not give the permission CREATE",
        ),
        (
            "/consumers/g/offsets/{topic}/0",
            "could not read /consumers/g/offsets/{topic}/0",
            _ALL - _READ,
            "node /consumers/g/offsets/{topic}/0 does not give the permission READ",
        ),
    ],
    ids=["owners", "members", "an offset"],
)
def test_the_first_attempt_raises_an_error_that_names_the_node_and_the_permission(
    cluster: PlantedCluster, node: str, forbidden: str, permissions: int, message: str
) -> None:
    topic = cluster.topic(2)
    cluster.nodes.create(node.format(topic=topic), makepath=True)
    cluster.nodes.set_acls(node.format(topic=topic), [ACL(permissions, Id("world", "anyone"))])
    connector = cluster.connect("g", "a", rebalance_backoff_ms=60_000)
    began = time.monotonic()
    with pytest.raises(AuthenticationError) as failure:
        connector.stream(topic)
    assert time.monotonic() - began < 40
    assert failure.match(forbidden.format(topic=topic))
    assert failure.match(f"{message.format(topic=topic)} to clients without a user")
    connector.close()

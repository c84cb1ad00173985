"""A member of a ZooKeeper group that other members have taken for dead does not move their offsets back."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pyklient import CommitError, KafkaStream
from pyklient.errors import KafkaError
from tests.consumer.feed import wait_for
from tests.consumer.group.zookeeper.planted import PlantedCluster
from tests.servers.stalling_proxy import StallingProxy

STORES = (
    {"offsets_storage": "zookeeper"},
    {"offsets_storage": "kafka", "dual_commit_enabled": False},
    {"offsets_storage": "kafka", "dual_commit_enabled": True},
)


@pytest.fixture
def proxy(cluster: PlantedCluster) -> Iterator[StallingProxy]:
    with StallingProxy(cluster.address.partition("/")[0]) as proxy:
        yield proxy


def take(stream: KafkaStream, count: int) -> None:
    for _, _ in zip(range(count), stream, strict=False):
        pass


@pytest.mark.parametrize("storage", STORES, ids=("zookeeper", "kafka", "both"))
def test_a_member_whose_session_is_over_does_not_overwrite_the_offset_of_the_new_owner(
    cluster: PlantedCluster, proxy: StallingProxy, storage: dict[str, Any]
) -> None:
    topic, group = cluster.topic(1, *"abcdef"), cluster.feed.name()
    chroot = cluster.address.partition("/")[2]
    options = {"enable_auto_commit": False, "zookeeper_session_timeout_ms": 1000, **storage}

    def committed() -> int | None:
        if storage["offsets_storage"] == "kafka":
            return cluster.feed.committed(group, topic)[0]
        return cluster.offsets(group, topic).get(0)

    with (
        cluster.connect(group, "a", zookeeper=f"{proxy.address}/{chroot}", **options) as stalled,
        cluster.connect(group, "b", **options) as other,
    ):
        old = stalled.stream(topic)
        take(old, 2)
        stalled.commit_offsets()
        take(old, 1)
        proxy.stall()
        new = other.stream(topic)  # which waits for the end of the other session
        cluster.wait_owned(group, topic, "b-0")
        take(new, 3)
        other.commit_offsets()
        assert committed() == 5
        with ThreadPoolExecutor(1) as threads:
            late = threads.submit(stalled.commit_offsets, timeout=5)
            proxy.resume()
            error = late.exception(timeout=20)
        assert isinstance(error, CommitError | KafkaError)
        assert committed() == 5
        wait_for(lambda: len(cluster.members(group)) == 2, "the return of the member")
        other.close()
        cluster.wait_owned(group, topic, "a-0")
        take(old, 1)
        stalled.commit_offsets()
        assert committed() == 6

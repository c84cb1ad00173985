"""Two processes of a mirror create and extend a topic at the same time."""

from types import SimpleNamespace
from typing import Any

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, broker_error
from pyklient.mirror.target_topics import TargetTopics


class _Target:
    """A target cluster in which another process is faster. Its brokers tell *count* partitions so far."""

    def __init__(self, count: int) -> None:
        self.count = count

    def topics(self, **_: object) -> list[str]:
        return ["t"] if self.count else []

    def partitions(self, _topics: object) -> list[int]:
        return list(range(self.count))

    def cluster(self) -> Any:
        return SimpleNamespace(brokers=[1])

    def create_topic(self, *_: object) -> None:
        raise broker_error(ErrorCode.TOPIC_ALREADY_EXISTS, "cannot create topic t")

    def create_partitions(self, *_: object) -> None:
        raise broker_error(ErrorCode.INVALID_PARTITIONS, "cannot increase topic t")


@pytest.mark.parametrize("known", [0, 1])
def test_the_mirror_waits_until_the_brokers_tell_what_another_process_has_created(known: int) -> None:
    """An error that is not retriable would end the mirror."""
    cluster: Any = _Target(known)
    described = SimpleNamespace(partitions=[SimpleNamespace(replicas=[1])] * 2, config={})
    source: Any = SimpleNamespace(describe_topic=lambda _name: described)
    targets = TargetTopics(cluster, create=True)
    with pytest.raises(BrokerError) as caught:
        targets.prepare(source, "t", "t")
    assert caught.value.retriable
    assert not targets.has("t", 0)
    cluster.count = 2
    targets.prepare(source, "t", "t")
    assert targets.has("t", 1)

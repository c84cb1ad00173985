"""A member of Kafka asks ZooKeeper for members of its group."""

import pytest

from pyklient import ConsumerConnector
from pyklient.errors import RegistryConnectionError
from tests.consumer.feed import Feed


def test_a_member_does_not_join_if_zookeeper_cannot_tell_who_is_there(feed: Feed) -> None:
    with (
        ConsumerConnector(
            feed.bootstrap_servers, group_id="g", zookeeper="127.0.0.1:1", zookeeper_connection_timeout_ms=300
        ) as connector,
        pytest.raises(RegistryConnectionError, match=r"127\.0\.0\.1:1 could not be reached within 0\.3 s"),
    ):
        connector.stream(feed.topic())

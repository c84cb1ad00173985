"""A NetworkClient with old brokers, which lack some versions of requests."""

import re
from typing import Any

import pytest

from pyklient.errors import UnsupportedVersionError
from pyklient.net.connection.api_versions import AgreedVersions, needed_release
from pyklient.net.connection.version_probe import KAFKA_0_8_2, KAFKA_0_9
from pyklient.net.dialogue import ANY, CONTROLLER, Ask
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import (
    REQUESTS,
    ApiVersionsRequest,
    CreateTopicsRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    MetadataRequest,
    MetadataResponse,
)
from pyklient.protocol.schema import ApiMessage
from tests.net.scripted import ScriptedBroker, config_for, metadata_of

_KNOWN = {key: request.versions for key, request in REQUESTS.items()}


def topic(name: str) -> MetadataResponse.MetadataResponseTopic:
    return MetadataResponse.MetadataResponseTopic(name=name)


def test_a_broker_that_creates_each_topic_that_is_named_is_asked_for_all_topics() -> None:
    with ScriptedBroker(versions={**_KNOWN, MetadataRequest.api_key: (0, 3)}) as broker:
        broker.on(MetadataRequest, lambda request: metadata_of([broker], [topic("t"), topic("u")]))
        client = NetworkClient(config_for(broker))
        found = client.refresh_metadata(["t", "missing"], 20).topics
        client.refresh_metadata(["new"], 20, allow_auto_create=True)
        client.close()
        requests: list[Any] = broker.requests
        assert [each.topics and [entry.name for entry in each.topics] for each in requests] == [None, ["new"]]
        assert {name: info.error for name, info in found.items()} == {"t": 0, "missing": 3}


def test_a_request_that_no_broker_of_the_cluster_knows_does_not_wait_for_a_controller() -> None:
    with ScriptedBroker(versions={18: (0, 2), MetadataRequest.api_key: (0, 0)}) as broker:
        client = NetworkClient(config_for(broker))
        with pytest.raises(UnsupportedVersionError, match=r"no version of Heartbeat.*Kafka 0\.9 or later"):
            client.ask(Ask(CONTROLLER, HeartbeatRequest()), 20)
        client.close()


@pytest.mark.parametrize(
    ("request_class", "instead"),
    [
        (JoinGroupRequest, "set coordination='zookeeper'"),
        (CreateTopicsRequest, "kafka-topics.sh --zookeeper"),
    ],
)
def test_the_error_says_what_to_do_on_a_broker_without_the_request(
    request_class: type[ApiMessage], instead: str
) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"which needs Kafka .* or later; .*{instead}"):
        AgreedVersions("broker 1", {18: (0, 0)}).of(request_class, None)


def test_a_request_is_not_sent_in_a_version_that_is_too_old_for_it() -> None:
    newer = HeartbeatRequest.versions[1] + 1
    with ScriptedBroker() as broker:
        client = NetworkClient(config_for(broker))
        with pytest.raises(
            UnsupportedVersionError, match=f"not support version {newer} or later of Heartbeat"
        ):
            client.ask(Ask(ANY, HeartbeatRequest(), min_version=newer), 20)
        client.close()
        assert not broker.count(HeartbeatRequest)


@pytest.mark.parametrize("key", sorted(REQUESTS.keys() - {ApiVersionsRequest.api_key}))
def test_the_release_that_an_error_names_agrees_with_the_versions_of_old_brokers(key: int) -> None:
    said = needed_release(REQUESTS[key])
    if key in KAFKA_0_8_2:
        assert said == ""
    else:
        assert re.fullmatch(r", which needs Kafka [0-9.]+ or later", said)
        assert (said == ", which needs Kafka 0.9 or later") == (key in KAFKA_0_9)

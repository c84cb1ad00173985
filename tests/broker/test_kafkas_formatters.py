"""Kafka's own formatters read the records of ``__consumer_offsets``."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from pyklient import ConsumerConnector, Producer, read
from pyklient.broker import Broker
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC, group_partition
from pyklient.topic_partition import TopicPartition
from tests.broker.test_offsets_topic import commit
from tests.broker.wire_client import WireClient
from tests.servers.java import java_command
from tests.servers.maven import kafka_libs


def formatted(bootstrap: str, formatter: str) -> list[dict[str, Any]]:
    """Return the objects that Kafka's console consumer prints of the partition that stores the group g, one
    after the other, without any space between them."""
    partition = group_partition("g", 50)
    count = sum(1 for each in read(bootstrap, OFFSETS_TOPIC) if each.partition == partition)
    command = java_command(
        kafka_libs("4.3.1"),
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", OFFSETS_TOPIC, "--partition", str(partition)),
        *("--offset", "earliest", "--max-messages", str(count), "--timeout-ms", "30000"),
        *("--formatter", f"org.apache.kafka.tools.consumer.{formatter}"),
    )
    text = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout.strip()
    found, position = [], 0
    while position < len(text):
        each, position = json.JSONDecoder().raw_decode(text, position)
        found.append(each)
    return found


@pytest.mark.java
def test_kafkas_formatters_read_commits_and_groups(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path) as broker, WireClient(broker) as client:
        broker.create_topic("clicks")
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("clicks", b"value")
        with ConsumerConnector(
            broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as connector:
            stream = connector.create_message_streams({"clicks": 1})["clicks"][0]
            next(iter(stream))
            connector.commit_offsets({TopicPartition("clicks", 0): 1})
        commit(client, "g", 41, 2, retention=1000)
        offsets = formatted(broker.bootstrap_servers, "OffsetsMessageFormatter")
        generations = formatted(broker.bootstrap_servers, "GroupMetadataMessageFormatter")
    key = {"type": 1, "data": {"group": "g", "topic": "clicks", "partition": 0}}
    assert all(each["key"] == key for each in offsets)
    first, last = offsets[0]["value"], offsets[-1]["value"]
    assert (first["version"], first["data"]["offset"]) == (3, 1)
    assert (last["version"], last["data"]["offset"], last["data"]["metadata"]) == (1, 41, "note")
    assert last["data"]["expireTimestamp"] == last["data"]["commitTimestamp"] + 1000
    assert all(each["key"] == {"type": 2, "data": {"group": "g"}} for each in generations)
    first, last = generations[0]["value"]["data"], generations[-1]["value"]["data"]
    assert (first["protocolType"], first["generation"], first["protocol"]) == ("consumer", 1, "range")
    [member] = first["members"]
    assert (member["memberId"], member["sessionTimeout"]) == (first["leader"], 45_000)
    assert (last["protocolType"], last["generation"], last["members"]) == ("consumer", 2, [])

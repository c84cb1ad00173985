"""Other clients keep fetch sessions with the reference broker."""

import subprocess
from functools import partial

import pytest

from pyklient import Producer
from pyklient.protocol.messages import FetchRequest, FetchResponse
from tests.interop.peers import KafkaPython
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.java import java_command
from tests.servers.maven import kafka_libs
from tests.servers.process import wait_until
from tests.servers.recording_proxy import RecordingProxy

pytestmark = [pytest.mark.brokers(real=False), pytest.mark.slow]


def fill(bootstrap: str, topic: str, partitions: int, each: int) -> None:
    with Producer(bootstrap) as producer:
        for number in range(partitions * each):
            producer.send(topic, b"%d" % number, partition=number % partitions)


def check_sessions(proxy: RecordingProxy) -> None:
    """Check that every fetch was answered, and that most fetches belong to a session."""
    epochs: dict[int, list[int]] = {}
    for exchange in proxy.exchanges:
        request, response = exchange.request, exchange.response
        assert isinstance(request, FetchRequest)
        assert isinstance(response, FetchResponse)
        assert response.error_code == 0
        if request.session_epoch == 0:
            epochs[response.session_id] = [0]
        elif request.session_epoch > 0:
            epochs[request.session_id].append(request.session_epoch)
    assert 0 not in epochs
    assert all(found == list(range(len(found))) for found in epochs.values())
    assert sum(len(found) - 1 for found in epochs.values()) > 2


def test_kafka_python_reads_in_a_session(bootstrap: str, new_topic: NewTopic, new_name: NewName) -> None:
    topic = new_topic(partitions=4)
    fill(bootstrap, topic, 4, 50)
    found: list[tuple[int, int]] = []
    with (
        RecordingProxy(bootstrap, FetchRequest) as proxy,
        KafkaPython().member(proxy.bootstrap_servers, new_name(), topic, "peer") as member,
    ):

        def read(count: int) -> bool:
            found.extend((partition, offset) for partition, offset, _ in member.poll())
            return len(found) >= count

        for count in range(200, 240, 8):
            wait_until(partial(read, count), 60, f"{count} messages read")
            fill(bootstrap, topic, 4, 2)
        check_sessions(proxy)
    read_from = [[offset for home, offset in found if home == partition] for partition in range(4)]
    assert all(offsets == list(range(len(offsets))) for offsets in read_from)


@pytest.mark.java
def test_the_java_client_reads_in_a_session(bootstrap: str, new_topic: NewTopic, new_name: NewName) -> None:
    topic = new_topic(partitions=4)
    fill(bootstrap, topic, 4, 50)
    with RecordingProxy(bootstrap, FetchRequest) as proxy:
        command = java_command(
            kafka_libs("4.3.1"),
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            *("--bootstrap-server", proxy.bootstrap_servers, "--topic", topic, "--group", new_name()),
            *("--from-beginning", "--timeout-ms", "10000"),
            *("--command-property", "fetch.max.wait.ms=100"),
        )
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        check_sessions(proxy)
    assert sorted(map(int, done.stdout.split())) == list(range(200))
    last = proxy.exchanges[-1].request
    assert isinstance(last, FetchRequest)
    assert last.session_epoch == -1, "it closes its session"

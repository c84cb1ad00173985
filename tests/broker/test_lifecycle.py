"""Starting, stopping, forking and misusing a Broker object."""

import os
import pickle
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pyklient.broker import Broker
from pyklient.errors import (
    BrokerConnectionError,
    BrokerError,
    ClosedError,
    ConfigurationError,
    ForkError,
)
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from tests.broker.wire_client import WireClient
from tests.servers.ports import free_port


def test_create_topic_says_what_is_wrong(broker: Broker) -> None:
    broker.create_topic("t")
    with pytest.raises(BrokerError, match="already exists") as told:
        broker.create_topic("t")
    assert told.value.name == "TOPIC_ALREADY_EXISTS"
    with pytest.raises(BrokerError, match="unknown topic setting"):
        broker.create_topic("u", config={"retention": "1"})


def test_options_are_checked_and_the_nearest_name_is_given() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'segment_bytes'"):
        Broker(segment_byte=5)  # type: ignore[call-arg]  # what is tried
    with pytest.raises(ConfigurationError, match="out of range; choose a number from 1 to 10000"):
        Broker(num_partitions=0)
    with pytest.raises(ConfigurationError, match="takes True or False"):
        Broker(auto_create_topics=1)  # type: ignore[arg-type]  # what is tried


def test_a_closed_broker_says_so_and_leaves_neither_thread_nor_directory() -> None:
    broker = Broker()
    with pytest.raises(ClosedError):
        print(broker.bootstrap_servers)
    with broker:
        directory = broker.data_dir
        assert directory.is_dir()
        assert not broker.wait(timeout=0.01)
    assert not directory.exists()
    assert broker.wait(timeout=5)
    assert "pyklient-broker" not in {thread.name for thread in threading.enumerate()}
    with pytest.raises(ClosedError):
        broker.create_topic("t")


def test_a_broker_started_again_takes_the_same_port() -> None:
    broker = Broker()
    with broker:
        first = broker.port
    with broker:
        assert broker.port == first


def test_a_port_in_use_is_an_error_that_names_it(broker: Broker) -> None:
    with pytest.raises(BrokerConnectionError, match=f"cannot listen on 127.0.0.1:{broker.port}"):
        Broker(port=broker.port).start()


def test_an_address_of_another_machine_is_an_error_that_asks_for_one_of_this_machine() -> None:
    with pytest.raises(
        BrokerConnectionError, match=r"cannot listen on 198\.51\.100\.7:0: .*; host must be an"
    ) as it:
        Broker(host="198.51.100.7").start()
    assert "port 0" not in str(it.value)


def test_two_brokers_that_start_at_once_do_not_share_a_port(tmp_path: Path) -> None:
    port, groups = free_port(), _blocked_groups(tmp_path / "slow")
    slow = Broker(port, data_dir=tmp_path / "slow")
    failed: list[BaseException] = []

    def start() -> None:
        try:
            slow.start()
        except BrokerConnectionError as error:
            failed.append(error)

    starting = threading.Thread(target=start, daemon=True)
    starting.start()
    writer = os.open(groups, os.O_WRONLY)
    with Broker(port) as first, WireClient(first) as client:
        _go_on(starting, writer)
        assert [f"cannot listen on 127.0.0.1:{port}" in str(error) for error in failed] == [True]
        assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_connections_are_refused_until_the_data_directory_has_been_read(tmp_path: Path) -> None:
    port, groups = free_port(), _blocked_groups(tmp_path / "data")
    broker = Broker(port, data_dir=tmp_path / "data")
    starting = threading.Thread(target=broker.start, daemon=True)
    starting.start()
    writer = os.open(groups, os.O_WRONLY)
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
    finally:
        _go_on(starting, writer)
    with broker, WireClient(broker) as client:
        assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def _blocked_groups(directory: Path) -> Path:
    """Put a pipe into *directory* in place of the file of groups that earlier releases wrote. The pipe blocks
    the broker, which reads it, until there is a writer."""
    with Broker(data_dir=directory):
        pass
    groups = directory / "offsets.jsonl"
    os.mkfifo(groups)
    return groups


def _go_on(starting: threading.Thread, writer: int) -> None:
    """Write the end of the pipe from which the broker reads."""
    os.close(writer)
    starting.join(30)


def test_a_directory_in_use_is_an_error_and_the_port_is_free_again(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path / "data"):
        second = Broker(data_dir=tmp_path / "data")
        with pytest.raises(ConfigurationError, match="in use"):
            second.start()
    with second:
        assert second.port


def test_damaged_facts_are_an_error_at_the_start_and_leave_no_thread(tmp_path: Path) -> None:
    (tmp_path / "broker.json").write_text(
        '{"topics": {"t": {"id": "no hex", "configs": {}, "partitions": 1}}}'
    )
    with pytest.raises(ValueError, match="non-hexadecimal"):
        Broker(data_dir=tmp_path).start()
    assert "pyklient-broker" not in {thread.name for thread in threading.enumerate()}


def test_listening_everywhere_needs_an_address_for_clients() -> None:
    with pytest.raises(ConfigurationError, match="advertised_host"):
        Broker(host="0.0.0.0")
    with Broker(host="0.0.0.0", advertised_host="localhost") as broker:
        assert broker.bootstrap_servers == f"localhost:{broker.port}"
        resource = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=4, resource_name="1", configuration_keys=["advertised.listeners", "listeners"]
        )
        with WireClient(broker) as client:
            asked = DescribeConfigsRequest(resources=[resource])
            [told] = client.ask(asked, DescribeConfigsResponse).results
        assert [config.value for config in told.configs] == [
            f"PLAINTEXT://localhost:{broker.port}",
            f"PLAINTEXT://0.0.0.0:{broker.port}",
        ]
        with socket.create_connection(("127.0.0.1", broker.port), timeout=5):
            pass


def test_a_broker_is_not_pickled(broker: Broker) -> None:
    with pytest.raises(TypeError, match="bootstrap_servers"):
        pickle.dumps(broker)


def test_a_forked_child_is_told_and_leaves_the_broker_alone(broker: Broker, client: WireClient) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            broker.create_topic("t")
        except ForkError:
            os.write(writer, b"told")
        finally:
            os._exit(0)
    os.close(writer)
    assert os.read(reader, 10) == b"told"
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0
    assert client.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


@pytest.mark.parametrize("action", ["always", "error"])
def test_a_broker_left_open_is_closed_at_exit_with_a_warning(action: str) -> None:
    program = "from pyklient.broker import Broker; print(Broker().start().data_dir)"
    done = subprocess.run(
        [sys.executable, "-W", action, "-c", program],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert "ResourceWarning" in done.stderr
    assert "was not closed" in done.stderr
    assert not Path(done.stdout.strip()).exists()

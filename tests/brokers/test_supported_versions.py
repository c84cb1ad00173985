"""The versions that pyklient uses with brokers that do not name theirs, compared with Kafka's own classes."""

import subprocess
from pathlib import Path

import pytest

from pyklient.net.connection.old_brokers import Versions
from pyklient.net.connection.version_probe import KAFKA_0_8_2, KAFKA_0_9
from pyklient.protocol.messages import REQUESTS
from tests.servers.java import java_command
from tests.servers.maven import kafka_libs

pytestmark = pytest.mark.java

_SOURCE = Path(__file__).parent / "SupportedVersions.java"
_BETWEEN_BROKERS = {4, 5, 6, 7}
_NOT_IN_THE_BROKER_OF_0_8_2 = {11, 12}
"""JoinGroup and Heartbeat: the jar of the clients has their messages, and the broker refuses them."""


@pytest.mark.parametrize(
    ("release", "versions", "refused"),
    [("0.8.2.2", KAFKA_0_8_2, _NOT_IN_THE_BROKER_OF_0_8_2), ("0.9.0.1", KAFKA_0_9, set[int]())],
    ids=["0.8.2.2", "0.9.0.1"],
)
def test_the_newest_version_of_each_request_is_that_of_kafkas_classes(
    release: str, versions: Versions, refused: set[int]
) -> None:
    command = java_command(kafka_libs(release), str(_SOURCE), heap="64m")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    newest = {int(key): int(version) for key, version in map(str.split, ran.stdout.splitlines())}
    kafkas = {key: newest[key] for key in newest.keys() - _BETWEEN_BROKERS - refused}
    assert {key: last for key, (_, last) in versions.items()} == kafkas
    assert kafkas.keys() <= REQUESTS.keys()

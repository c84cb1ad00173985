"""A command that tools.on_broker runs with a broker of its own."""

import sys

import pytest

from tools.on_broker import main

DESCRIBE = """
import os, sys
from pyklient import Admin, Producer
address = os.environ["BOOTSTRAP_SERVERS"]
assert address == os.environ["BROKER_HOST"] + ":" + os.environ["BROKER_PORT"]
with Producer(address) as producer:
    producer.send("t", b"value")
with Admin(address) as admin:
    print(len(admin.describe_topic("t").partitions))
sys.exit(3)
"""


def test_the_command_finds_the_broker_and_its_status_is_returned(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--setting", "num_partitions=4", "reference", sys.executable, "-c", DESCRIBE]) == 3
    assert capfd.readouterr().out == "4\n"


def test_a_command_that_does_not_exist_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["reference", "no-such-program"]) == 127
    assert "no-such-program cannot be run: No such file or directory" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reference"], "name the command to run after the broker"),
        (
            ["--setting", "num_partitions", "reference", "true"],
            "'num_partitions' has not the form NAME=NUMBER",
        ),
    ],
)
def test_a_wrong_command_line_is_an_error(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert says in capsys.readouterr().err

"""Committed offsets are reset as Kafka's own kafka-consumer-groups.sh resets them, row by row. Each
of the two reads the files that the other has written."""

import csv
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from pyklient import Admin, Producer, TopicPartition
from pyklient.cli.offset_files import csv_lines, parse_offsets
from tests.oracles.process import Oracle
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.server import Server

pytestmark = [pytest.mark.java, pytest.mark.brokers(real=True)]

_RECORDS = 10
_START = 1_700_000_000_000

Rows = dict[tuple[str, int], int]
Tool = Callable[..., str]


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle("4.3.1", "ConsumerGroupsOracle.java") as oracle:
        yield oracle


@pytest.fixture
def tool(oracle: Oracle, any_broker: Server) -> Tool:
    """Runs Kafka's tool, and returns what it prints."""

    def tool(*arguments: str) -> str:
        [said] = oracle.ask(["\t".join(("--bootstrap-server", any_broker.bootstrap_servers, *arguments))])
        return said.replace("\t", "\n")

    return tool


def _csv(said: str) -> Rows:
    """Return the rows that the tool exports."""
    return {(row[0], int(row[1])): int(row[2]) for row in csv.reader(said.splitlines()) if len(row) == 3}


def _filled(bootstrap: str, topic: str, partitions: int) -> None:
    """Write ten records to all partitions but the last. Record N is N seconds younger than the first."""
    with Producer(bootstrap, enable_idempotence=False) as producer:
        for number in range(_RECORDS * (partitions - 1)):
            partition, index = number % (partitions - 1), number // (partitions - 1)
            producer.send(topic, b"x", partition=partition, timestamp_ms=_START + 1000 * index)


@pytest.mark.brokers(min="4.3")  # the client computes the offsets, from the same answers of each broker
def test_each_reset_leads_to_the_offsets_of_kafkas_tool(
    bootstrap: str, tool: Tool, new_topic: NewTopic, new_name: NewName, tmp_path: Path
) -> None:
    topic, other, group = new_topic(3), new_topic(2), new_name()
    for name, partitions in ((topic, 3), (other, 2)):
        _filled(bootstrap, name, partitions)
    one = TopicPartition(topic, 1)
    cases: list[tuple[list[str], dict[str, Any]]] = [
        (["--to-earliest"], {"to": "earliest"}),
        (["--to-latest"], {"to": "latest"}),
        (["--to-current"], {"to": "current"}),
        (["--to-offset", "4"], {"to": 4}),
        (["--to-offset", "40"], {"to": 40}),
        (["--shift-by", "2"], {"shift_by": 2}),
        (["--shift-by", "-50"], {"shift_by": -50}),
        (
            ["--to-datetime", "2023-11-14T22:13:23.001Z"],
            {"to": datetime.fromtimestamp(_START / 1000 + 3.001, UTC)},
        ),
        (
            ["--to-datetime", "2023-11-14T22:13:23.000Z"],
            {"to": datetime.fromtimestamp(_START / 1000 + 3, UTC)},
        ),
        (
            ["--to-datetime", "2033-11-14T22:13:23.000Z"],
            {"to": datetime(2033, 11, 14, 22, 13, 23, tzinfo=UTC)},
        ),
    ]
    scopes: list[tuple[list[str], dict[str, Any]]] = [
        (["--all-topics"], {}),
        (["--topic", topic], {"topics": [topic]}),
        (["--topic", f"{topic}:1"], {"topics": [one]}),
    ]
    with Admin(bootstrap) as admin:
        committed = {TopicPartition(topic, 0): 3, one: 5, TopicPartition(other, 0): 7}
        admin.reset_offsets(group, committed, execute=True)
        for theirs, ours in cases:
            for their_scope, our_scope in scopes:
                if "shift_by" in ours and our_scope == {"topics": [topic]}:
                    continue  # nothing is committed for the last partition: an error with both
                said = tool(
                    "--group", group, "--reset-offsets", *theirs, *their_scope, "--export", "--dry-run"
                )
                changes = admin.reset_offsets(group, **ours, **our_scope).changes
                assert _csv(said) == {tuple(each): at.after.offset for each, at in changes.items()}, said
        assert _csv(
            tool("--group", group, "--reset-offsets", "--to-current", "--all-topics", "--export")
        ) == {tuple(each): offset for each, offset in committed.items()}
        # The tool reads our lines, we read its lines.
        ours_file, theirs_file = tmp_path / "ours.csv", tmp_path / "theirs.csv"
        exported = {
            each: at.kafka for each, at in admin.stored_offsets(group).items() if at.kafka is not None
        }
        ours_file.write_text(csv_lines(exported))
        copy = new_name()
        tool("--group", copy, "--reset-offsets", "--from-file", str(ours_file), "--execute")
        assert admin.group_offsets(copy) == exported
        for groups in ([group], [group, copy]):
            named = [argument for each in groups for argument in ("--group", each)]
            said = tool(*named, "--reset-offsets", "--to-current", "--all-topics", "--export", "--dry-run")
            theirs_file.write_text(said)
            assert parse_offsets(theirs_file.read_bytes(), group) == exported

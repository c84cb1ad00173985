"""Each command on a running broker: its input, its output, JSON, and its failures."""

import contextlib
import json
from pathlib import Path

import pytest

from pyklient import Admin, ConsumerConnector, TopicPartition
from pyklient.broker import Broker
from tests.cli.conftest import Pyklient
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until


def _values(text: str) -> list[str]:
    return [json.loads(line)["value"] for line in text.splitlines()]


def test_lines_go_in_and_come_out(pyklient: Pyklient, new_name: NewName) -> None:
    topic = new_name()
    done = pyklient("produce", topic, stdin=b"one\ntwo\n\nno newline")
    assert (done.code, done.out, done.err) == (0, b"", f"4 messages to {topic}\n")
    done = pyklient("consume", topic, "--to-end")
    assert (done.code, done.out) == (0, b"one\ntwo\n\nno newline\n")


def test_no_lines_are_no_messages(pyklient: Pyklient, new_name: NewName) -> None:
    assert pyklient("produce", new_name(), stdin=b"").err.startswith("0 messages")


def test_keys_headers_partition_and_compression_arrive(
    pyklient: Pyklient, new_name: NewName, tmp_path: Path
) -> None:
    topic, file = new_name(), tmp_path / "lines"
    file.write_bytes(b"k1:v:1\nk2:\xff\n")
    assert pyklient("topics", "create", topic, "--partitions", "3").code == 0
    arguments = ["-k", ":", "-H", "trace=1", "-H", "empty=", "-p", "2", "-z", "zstd", "-q", "-f", str(file)]
    done = pyklient("produce", topic, *arguments)
    assert (done.code, done.err) == (0, "")
    done = pyklient("consume", topic, "--to-end", "--json")
    first, second = (json.loads(line) for line in done.text.splitlines())
    assert (first["key"], first["value"], first["partition"], first["offset"]) == ("k1", "v:1", 2, 0)
    assert first["headers"] == [["trace", "1"], ["empty", ""]]
    assert second["value"] == {"base64": "/w=="}
    done = pyklient("consume", topic, "--to-end", "-k", "=")
    assert done.out == b"k1=v:1\nk2=\xff\n"


def test_what_consume_writes_as_json_produce_reads(pyklient: Pyklient, new_name: NewName) -> None:
    old, new = new_name(), new_name()
    lines = b'{"key":"k","value":null,"headers":{"h":"1"},"timestamp_ms":5}\n{"value":{"a":1}}\n'
    assert pyklient("produce", old, "--json", stdin=lines).code == 0
    out = pyklient("consume", old, "--to-end", "--json").out
    assert pyklient("produce", new, "--json", stdin=out).code == 0
    again = pyklient("consume", new, "--to-end", "--json").text
    assert again.replace(new, old) == out.decode()
    assert json.loads(again.splitlines()[0])["timestamp_ms"] == 5


def test_a_group_goes_on_where_it_stopped(pyklient: Pyklient, new_name: NewName) -> None:
    topic, group = new_name(), new_name()
    pyklient("produce", topic, stdin=b"1\n2\n3\n4\n5\n")
    first = pyklient("consume", topic, "-g", group, "--from-beginning", "-n", "2")
    assert (first.code, first.text) == (0, "1\n2\n")
    rest = pyklient("consume", topic, "-g", group, "--from-beginning", "--timeout", "5")
    assert (rest.code, rest.text) == (0, "3\n4\n5\n")


def test_several_topics_are_read_together(pyklient: Pyklient, new_name: NewName) -> None:
    topics = [new_name(), new_name()]
    for topic in topics:
        pyklient("produce", topic, stdin=topic.encode())
    done = pyklient("consume", *topics, "--to-end")
    assert sorted(done.text.split()) == sorted(topics)


def test_a_limit_holds_and_too_few_messages_are_a_failure(pyklient: Pyklient, new_name: NewName) -> None:
    topic = new_name()
    pyklient("produce", topic, stdin=b"a\nb\nc\n")
    assert pyklient("consume", topic, "--from-beginning", "-n", "2").text == "a\nb\n"
    done = pyklient("consume", topic, "--from-beginning", "-n", "9", "--timeout", "3")
    assert (done.code, done.text) == (1, "a\nb\nc\n")
    assert done.err == "pyklient: only 3 of 9 messages arrived, and then none for 3 s\n"


def test_what_is_read_to_its_end_is_not_said_to_have_been_waited_for(
    pyklient: Pyklient, new_name: NewName
) -> None:
    topic = new_name()
    pyklient("produce", topic, stdin=b"a\nb\nc\n")
    done = pyklient("consume", topic, "--to-end", "-n", "9", "--timeout", "60")
    assert (done.code, done.text) == (1, "a\nb\nc\n")
    assert done.err == "pyklient: only 3 of 9 messages arrived, because the topics have no more\n"
    done = pyklient("consume", topic, "--to-end", "-n", "3", "--timeout", "60")
    assert (done.code, done.text, done.err) == (0, "a\nb\nc\n", "")


def test_the_time_out_of_the_client_counts_where_the_command_has_none(
    pyklient: Pyklient, new_name: NewName
) -> None:
    topic = new_name()
    pyklient("produce", topic, stdin=b"a\n")
    done = pyklient("consume", topic, "--from-beginning", "-X", "consumer.timeout.ms=3000")
    assert (done.code, done.text) == (0, "a\n")
    refused = pyklient("consume", topic, "-X", "consumer.timeout.ms=-7")
    assert (refused.code, "consumer_timeout_ms=-7 is out of range" in refused.err) == (2, True)


def test_without_from_beginning_only_what_comes_is_shown(pyklient: Pyklient, new_name: NewName) -> None:
    topic = new_name()
    pyklient("produce", topic, stdin=b"before\n")
    done = pyklient("consume", topic, "--timeout", "0.3")
    assert (done.code, done.out) == (0, b"")


def test_topics_are_created_listed_described_and_deleted(pyklient: Pyklient, new_name: NewName) -> None:
    topic = new_name()
    done = pyklient("topics", "create", topic, "-p", "2", "--set", "retention.ms=600000")
    assert (done.code, done.out, done.err) == (0, b"", "")
    assert topic in pyklient("topics", "list").text.splitlines()
    assert topic in json.loads(pyklient("topics", "list", "--json").out)
    pyklient("produce", topic, "-p", "1", stdin=b"x\n")
    described = json.loads(pyklient("topics", "describe", topic, "--json").out)
    assert described["config"] == {"retention.ms": "600000"}
    assert [(part["partition"], part["start"], part["end"]) for part in described["partitions"]] == [
        (0, 0, 0),
        (1, 0, 1),
    ]
    shown = pyklient("topics", "describe", topic).text
    assert "retention.ms" in shown
    assert shown.split()[:6] == ["partition", "leader", "replicas", "isr", "start", "end"]
    assert pyklient("topics", "delete", topic).code == 0
    assert topic not in pyklient("topics", "list").text.splitlines()


def test_what_is_there_or_not_there_already_is_fine_only_when_said_so(
    pyklient: Pyklient, new_name: NewName
) -> None:
    topic = new_name()
    assert pyklient("topics", "create", topic).code == 0
    again = pyklient("topics", "create", topic)
    assert again.code == 1
    assert "TOPIC_ALREADY_EXISTS" in again.err
    assert pyklient("topics", "create", topic, "--if-not-exists").code == 0
    assert pyklient("topics", "delete", topic).code == 0
    assert "UNKNOWN_TOPIC_OR_PARTITION" in pyklient("topics", "delete", topic).err
    assert pyklient("topics", "delete", topic, "--if-exists").code == 0


def test_one_that_cannot_be_deleted_does_not_keep_the_others(pyklient: Pyklient, new_name: NewName) -> None:
    first, missing, last = new_name(), new_name(), new_name()
    for topic in (first, last):
        pyklient("produce", topic, stdin=b"1\n")
        pyklient("consume", topic, "-g", topic, "--from-beginning", "-n", "1")
    for kind, complaint in (("groups", "GROUP_ID_NOT_FOUND"), ("topics", "UNKNOWN_TOPIC_OR_PARTITION")):
        done = pyklient(kind, "delete", first, missing, missing, last)
        assert (done.code, done.out) == (1, b"")
        assert [missing in line and complaint in line for line in done.err.splitlines()] == [True, True]
        assert not {first, last} & set(pyklient(kind, "list").text.split())


def test_without_brokers_the_names_that_were_not_tried_are_told(pyklient: Pyklient) -> None:
    done = pyklient(
        "topics", "delete", "a", "b", "c", "-b", "127.0.0.1:1", "-X", "default_api_timeout_ms=300"
    )
    assert done.code == 1
    assert done.err.endswith("; no attempt was made to delete b, c\n")
    assert done.err.count("\n") == 1


def test_the_lag_of_a_group_counts_partitions_that_it_has_not_committed_and_says_so(
    pyklient: Pyklient, broker: Broker, new_name: NewName
) -> None:
    topic, group = new_name(), new_name()
    broker.create_topic(topic, partitions=3)
    pyklient("produce", topic, "-p", "0", stdin=b"1\n2\n3\n")
    pyklient("produce", topic, "-p", "2", stdin=b"1\n2\n3\n4\n")
    with ConsumerConnector(broker.bootstrap_servers, group_id=group, enable_auto_commit=False) as connector:
        connector.stream(topic)
        connector.commit_offsets({TopicPartition(topic, 0): 1})
        assert ": Stable, 1 member, protocol range" in pyklient("groups", "describe", group).text
    described = json.loads(pyklient("groups", "describe", group, "--json").out)
    assert (described["lag"], described["lag_without_commit"]) == (6, 4)
    rows = [(row["partition"], row["committed"], row["end"], row["lag"]) for row in described["partitions"]]
    assert rows == [(0, 1, 3, 2), (1, None, 0, 0), (2, None, 4, 4)]
    shown = pyklient("groups", "describe", group).text
    assert "lag 6" in shown
    assert "The lag includes 4 in 2 partitions without a committed offset" in shown


def test_the_lag_of_a_group_without_committed_offsets_is_shown_as_unknown(
    pyklient: Pyklient, broker: Broker, new_name: NewName
) -> None:
    topic, group = new_name(), new_name()
    pyklient("produce", topic, stdin=b"1\n2\n3\n")
    with ConsumerConnector(broker.bootstrap_servers, group_id=group, enable_auto_commit=False) as connector:
        connector.stream(topic)
        shown = pyklient("groups", "describe", group).text.splitlines()
    assert shown[0].endswith(", lag -")
    assert shown[1] == "No partition has a committed offset, so each lag is counted from the start of the log"


def test_a_group_is_listed_described_with_its_lag_and_deleted(pyklient: Pyklient, new_name: NewName) -> None:
    topic, group = new_name(), new_name()
    pyklient("produce", topic, stdin=b"1\n2\n3\n")
    pyklient("consume", topic, "-g", group, "--from-beginning", "-n", "1")
    assert group in pyklient("groups", "list").text
    assert group in [each["group_id"] for each in json.loads(pyklient("groups", "list", "--json").out)]
    described = json.loads(pyklient("groups", "describe", group, "--json").out)
    assert (described["state"], described["lag"], described["members"]) == ("Empty", 2, [])
    [row] = described["partitions"]
    assert (row["topic"], row["partition"], row["committed"], row["end"], row["lag"]) == (topic, 0, 1, 3, 2)
    shown = pyklient("groups", "describe", group).text
    assert "lag 2" in shown
    assert topic in shown
    assert "without a committed offset" not in shown
    assert pyklient("groups", "delete", group).code == 0
    gone = pyklient("groups", "describe", group)
    assert gone.code == 1
    assert "GROUP_ID_NOT_FOUND" in gone.err


def test_members_with_one_client_id_are_told_apart(
    pyklient: Pyklient, broker: Broker, new_name: NewName
) -> None:
    topic, group = new_name(), new_name()
    pyklient("topics", "create", topic, "--partitions", "3")
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            member = stack.enter_context(ConsumerConnector(broker.bootstrap_servers, group_id=group))
            member.stream(topic)
        admin = stack.enter_context(Admin(broker.bootstrap_servers))
        wait_until(
            lambda: [len(each.assignment) for each in admin.describe_group(group).members] == [1, 1, 1],
            30,
            "a partition for each of three members",
        )
        described = json.loads(pyklient("groups", "describe", group, "--json").out)
        shown = pyklient("groups", "describe", group).text
    members = {each["member_id"] for each in described["members"]}
    assert len(members) == 3
    assert {row["member"] for row in described["partitions"]} == members
    assert {row["client"] for row in described["partitions"]} == {"pyklient"}
    assert all(member in shown for member in members)


def test_info_says_what_runs(pyklient: Pyklient) -> None:
    facts = json.loads(pyklient("info", "--json").out)
    assert facts["kernel"] in ("python", "compiled")
    assert ("why" in facts) == (facts["kernel"] == "python")
    assert set(facts["codecs"]) == {"gzip", "snappy", "lz4", "zstd"}
    shown = pyklient("info").text
    assert facts["pyklient"] in shown
    assert facts["kernel"] in shown


@pytest.mark.parametrize("arguments", [[], ["topics"], ["groups"]])
def test_a_command_that_wants_another_one_shows_which_there_are(
    pyklient: Pyklient, arguments: list[str]
) -> None:
    done = pyklient(*arguments)
    assert (done.code, done.out) == (2, b"")
    assert "Commands:" in done.err


@pytest.mark.parametrize(
    "path",
    [
        "",
        *("produce", "consume", "broker", "demo", "info"),
        *("topics", "topics list", "topics create", "topics delete", "topics describe"),
        *("groups", "groups list", "groups describe", "groups delete"),
    ],
)
def test_every_command_has_help_and_shows_how(pyklient: Pyklient, path: str) -> None:
    done = pyklient(*path.split(), "--help")
    assert done.code == 0
    assert done.text.startswith(f"Usage: pyklient {path}".strip())
    assert "Example" in done.text

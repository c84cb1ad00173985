"""Each command on a running broker: input, output, JSON, and how it fails."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Pyklient
from tests.servers.fixtures import NewName


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
    arguments = ["-k", ":", "-H", "trace=1", "-H", "empty", "-p", "2", "-z", "zstd", "-q", "-f", str(file)]
    done = pyklient("produce", topic, *arguments)
    assert (done.code, done.err) == (0, "")
    done = pyklient("consume", topic, "--to-end", "--json")
    first, second = (json.loads(line) for line in done.text.splitlines())
    assert (first["key"], first["value"], first["partition"], first["offset"]) == ("k1", "v:1", 2, 0)
    assert first["headers"] == [["trace", "1"], ["empty", None]]
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


def test_a_line_that_is_no_record_fails_by_its_number(pyklient: Pyklient, new_name: NewName) -> None:
    done = pyklient("produce", new_name(), "--json", stdin=b'{"value":"a"}\n{"vlaue":"b"}\n')
    assert done.code == 1
    assert done.err.startswith("pyklient: line 2: unknown field 'vlaue'")
    done = pyklient("produce", new_name(), "-k", "|", stdin=b"a|b\nab\n")
    assert (done.code, done.err) == (1, "pyklient: line 2 has no '|' between key and value\n")


def test_a_group_goes_on_where_it_stopped(pyklient: Pyklient, new_name: NewName) -> None:
    topic, group = new_name(), new_name()
    pyklient("produce", topic, stdin=b"1\n2\n3\n4\n5\n")
    first = pyklient("consume", topic, "-g", group, "--from-beginning", "-n", "2")
    assert (first.code, first.text) == (0, "1\n2\n")
    rest = pyklient("consume", topic, "-g", group, "--from-beginning", "--timeout", "1")
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
    done = pyklient("consume", topic, "--from-beginning", "-n", "9", "--timeout", "0.4")
    assert (done.code, done.text) == (1, "a\nb\nc\n")
    assert done.err == "pyklient: 3 of 9 messages, then none for 0.4 s\n"


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
    assert pyklient("groups", "delete", group).code == 0
    gone = pyklient("groups", "describe", group)
    assert gone.code == 1
    assert "GROUP_ID_NOT_FOUND" in gone.err


def test_info_says_what_runs(pyklient: Pyklient) -> None:
    facts = json.loads(pyklient("info", "--json").out)
    assert facts["kernel"] in ("python", "compiled")
    assert ("why" in facts) == (facts["kernel"] == "python")
    assert set(facts["codecs"]) == {"gzip", "snappy", "lz4", "zstd"}
    shown = pyklient("info").text
    assert facts["pyklient"] in shown
    assert facts["kernel"] in shown


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["produce"], "Missing argument 'TOPIC'; see pyklient produce --help"),
        (["consume"], "Missing argument 'TOPIC…'"),
        (["no-such"], "No such command 'no-such'"),
        (["consume", "t", "-n", "0"], "Invalid value for '-n'"),
        (["consume", "t", "-g", "g", "--to-end"], "drop one of --to-end and --group"),
        (["produce", "t", "-X", "nothing"], "-X: every option is name=value"),
        (["topics", "create", "t", "--set", "nothing"], "a setting is name=value"),
        (["topics", "list", "-X", "sasl.password=hunter2"], "does not belong on a command line"),
    ],
)
def test_a_wrong_call_is_one_sentence_and_code_two(
    pyklient: Pyklient, arguments: list[str], complaint: str
) -> None:
    done = pyklient(*arguments)
    assert done.code == 2
    assert done.out == b""
    assert complaint in done.err
    assert done.err.startswith("pyklient: ")
    assert done.err.count("\n") == 1
    assert "hunter2" not in done.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["topics", "list", "-b", "nowhere"], "nowhere"),
        (["topics", "list", "-b", "127.0.0.1:1", "-X", "default_api_timeout_ms=300"], "127.0.0.1:1"),
        (["topics", "list", "-b", "server:port"], "is not host:port"),
        (["consume", "no-such-topic", "--to-end"], "UNKNOWN_TOPIC_OR_PARTITION"),
        (["produce", "t", "-X", "client.idd=1"], "did you mean 'client_id'"),
        (["groups", "describe", "no-such-group"], "GROUP_ID_NOT_FOUND"),
    ],
)
def test_a_failure_is_one_sentence_and_code_one(
    pyklient: Pyklient, arguments: list[str], complaint: str
) -> None:
    done = pyklient(*arguments, *(["-X", "default_api_timeout_ms=300"] if "nowhere" in arguments else []))
    assert done.code == 1
    assert done.out == b""
    assert complaint in done.err
    assert done.err.startswith("pyklient: ")
    assert done.err.count("\n") == 1


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
    if path not in ("", "topics", "groups"):
        assert "Example" in done.text

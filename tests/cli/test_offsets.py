"""``pyklient offsets``: what each command prints, changes and rejects."""

import json
import time
from pathlib import Path

import pytest

from pyklient import Admin, ConsumerConnector, Producer, TopicPartition
from pyklient.broker import Broker
from tests.cli.conftest import Pyklient
from tests.servers.fixtures import NewName

_NOTHING = "pyklient: nothing was changed; --execute makes these changes\n"


@pytest.fixture
def topic(pyklient: Pyklient, new_name: NewName) -> str:
    """A topic with two partitions. The first has four records, the second has none."""
    name = new_name()
    assert pyklient("topics", "create", name, "--partitions", "2").code == 0
    assert pyklient("produce", name, "-p", "0", stdin=b"a\nb\nc\nd\n").code == 0
    return name


def test_offsets_are_shown_reset_exported_and_imported(
    pyklient: Pyklient, topic: str, new_name: NewName, tmp_path: Path
) -> None:
    group, other, file = new_name(), new_name(), tmp_path / "offsets"
    empty = pyklient("offsets", "show", group)
    assert (empty.code, empty.out, empty.err) == (
        0,
        b"",
        f"pyklient: group {group} has no committed offsets\n",
    )
    plan = pyklient("offsets", "reset", group, "--to-offset", "3", "--topic", topic)
    assert (plan.code, plan.err) == (0, _NOTHING)
    assert [line.split(maxsplit=4) for line in map(str.rstrip, plan.text.splitlines())] == [
        ["topic", "partition", "kafka", "new", "note"],
        [topic, "0", "-", "3", "-"],
        [topic, "1", "-", "0", "3 is after the end of the log"],
    ]
    nothing = pyklient("offsets", "export", group)
    assert (nothing.code, nothing.out) == (1, b"")
    assert nothing.err == f"pyklient: group {group} has no committed offsets; check its name\n"
    for code, execute in enumerate(([], ["--execute"])):
        nothing = pyklient("offsets", "reset", group, "--to-latest", *execute)
        assert (nothing.code, nothing.out, nothing.err.count("\n")) == (code, b"", 1)
        assert f"nothing was changed: group {group} has no committed offsets; check its name" in nothing.err
    done = pyklient("offsets", "reset", group, "--to-offset", "3", "--topic", f"{topic}:0", "--execute")
    assert (done.code, done.err) == (0, f"pyklient: changed 1 offset of group {group}\n")
    assert done.text.split() == ["topic", "partition", "kafka", "new", topic, "0", "-", "3"]
    shown = pyklient("offsets", "show", group, "--topic", topic)
    assert [line.split() for line in shown.text.splitlines()] == [
        ["topic", "partition", "kafka", "zookeeper", "start", "end", "lag"],
        [topic, "0", "3", "-", "0", "4", "1"],
        [topic, "1", "-", "-", "0", "0", "0"],
    ]
    exported = pyklient("offsets", "export", group)
    assert exported.out == f"{topic},0,3\n".encode()
    file.write_bytes(exported.out)
    assert pyklient("offsets", "import", other, str(file)).err == _NOTHING
    for changed in ("1 offset of group", "0 offsets of group"):
        done = pyklient("offsets", "import", other, str(file), "--execute")
        assert done.code == 0
        assert done.err.startswith(f"pyklient: changed {changed} {other}")
    assert done.err.endswith("; 1 offset stayed the same\n")
    assert pyklient("offsets", "export", other).out == exported.out
    as_json = pyklient("offsets", "export", other, "--json")
    assert json.loads(as_json.out) == [{"topic": topic, "partition": 0, "offset": 3}]
    from_pipe = pyklient("offsets", "import", new_name(), "-", stdin=as_json.out)
    assert (from_pipe.code, from_pipe.err) == (0, _NOTHING)


def test_a_group_with_members_is_shown_what_would_change_and_fails(
    pyklient: Pyklient, broker: Broker, topic: str, new_name: NewName, tmp_path: Path
) -> None:
    group = new_name()
    with ConsumerConnector(broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest") as member:
        next(iter(member.stream(topic)))
        member.commit_offsets({TopicPartition(topic, 0): 1})
        file = tmp_path / "offsets"
        file.write_text(f"{topic},0,4\n")
        for arguments in (["reset", group, "--to-latest"], ["import", group, str(file)]):
            for execute in ([], ["--execute"]):
                plan = pyklient("offsets", *arguments, *execute)
                assert plan.text.split()[-4:] == [topic, "0", "1", "4"]
                assert (plan.code, plan.err.count("\n")) == (1, 1)
                assert f"nothing was changed: group {group} has 1 member" in plan.err
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.group_offsets(group)[TopicPartition(topic, 0)].offset == 1


def test_a_time_without_a_zone_is_in_utc(
    pyklient: Pyklient, broker: Broker, new_name: NewName, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_name()
    begin = 1_772_323_200_000  # 2026-03-01T00:00:00Z
    with Producer(broker.bootstrap_servers) as producer:
        for hours in range(4):
            producer.send(topic, b"v", timestamp_ms=begin + hours * 3_600_000)
    monkeypatch.setenv("TZ", "UTC-2")  # two hours east of Greenwich
    time.tzset()
    try:
        for given in ("2026-03-01T02:00:00", "2026-03-01T02:00:00Z", "2026-03-01T04:00:00+02:00"):
            plan = pyklient("offsets", "reset", new_name(), "--topic", topic, "--to-datetime", given)
            assert plan.text.split()[-4:] == [topic, "0", "-", "2"]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_wrong_calls_say_what_to_do(pyklient: Pyklient, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong"
    wrong.write_text("clicks,0\n")
    for arguments, error in (
        (
            ["reset", "g"],
            "give exactly one option that says where to move the offsets: one of --to-earliest, --to-latest",
        ),
        (["reset", "", "--to-latest"], "the name of the group must not be empty"),
        (["reset", "g", "--to-latest", "--shift-by", "1"], "not --to-latest and --shift-by"),
        (["reset", "g", "--by-duration", "2h"], "'2h' is not a duration such as P1D, PT2H or PT30M"),
        (
            ["reset", "g", "--by-duration", "P999999D"],
            "is too long: the time would be before the year 1",
        ),
        (["reset", "g", "--to-datetime", "today"], "'today' is not a time such as 2025-03-01T00:00:00+00:00"),
        (["reset", "g", "--to-latest", "--topic", "t:x"], "'t:x' is neither TOPIC nor TOPIC:0,1"),
        (["import", "g", str(wrong)], f"cannot read {wrong}: line 1 is neither topic,partition,offset"),
        (["copy", "g", "--to", "kafka", "--follow"], "--follow works only together with --execute"),
        (["copy", "g", "--to", "kafka"], "offsets in ZooKeeper need its address: set the option zookeeper"),
    ):
        done = pyklient("offsets", *arguments)
        assert (done.code, done.out) == (2, b"")
        assert error in done.err

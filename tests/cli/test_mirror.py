"""``pyklient mirror`` as a process: it copies, and ends cleanly with SIGTERM."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from pyklient import Admin, Producer, TopicPartition
from pyklient.broker import Broker
from tests.cli.conftest import Pyklient
from tests.mirror.running import by_partition, running, until
from tests.servers.fixtures import NewName


def until_line(lines: Iterable[bytes], begin: bytes) -> None:
    """Return when a line about the progress begins with *begin* and tells that nothing is left."""
    for line in lines:
        if line.startswith(begin) and line.endswith(b"lag 0\n"):
            return
    raise AssertionError(f"no line with {begin!r}")


def test_sigterm_ends_a_mirror_after_it_has_committed(
    broker: Broker, new_name: NewName, tmp_path: Path
) -> None:
    topic, group = new_name(), new_name()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(200)])
    options = tmp_path / "source.properties"
    options.write_text(f"bootstrap.servers={broker.bootstrap_servers}\n")
    with Broker() as target:
        words = f"--to {target.bootstrap_servers} -g {group} --whitelist {topic} --interval 0.1"
        command = [
            *(sys.executable, "-m", "pyklient", "mirror", "--from", f"@{options}"),
            *(*words.split(), "--commit-interval", "3600"),
        ]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            try:
                assert process.stderr is not None
                until_line(process.stderr, b"200 records copied, ")
                process.send_signal(signal.SIGTERM)
                assert process.wait(timeout=60) == 128 + signal.SIGTERM
            finally:
                process.kill()
        assert by_partition(target.bootstrap_servers, topic) == by_partition(broker.bootstrap_servers, topic)
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.group_offsets(group)[TopicPartition(topic, 0)].offset == 200


def test_a_mirror_needs_one_filter_of_topics(pyklient: Pyklient) -> None:
    done = pyklient("mirror", "--from", "localhost:1", "--to", "localhost:1", "-g", "m")
    assert done.code == 2
    assert "either --whitelist or --blacklist" in done.err
    for option in ("--whitelist", "--blacklist"):
        done = pyklient("mirror", "--from", "localhost:1", "--to", "localhost:1", "-g", "m", option, "")
        assert done.code == 2
        assert "the pattern of the topics is empty" in done.err


def test_wrong_calls_for_groups_name_the_options_of_the_command_line(
    pyklient: Pyklient, broker: Broker, new_name: NewName
) -> None:
    one, options = ("--from", "localhost:1"), ("--to", "localhost:1", "-g", "m", "--whitelist", "t")
    done = pyklient("mirror", *one, *options, "--groups", "billing")
    assert done.code == 2
    assert "--groups works only together with --keep-partitions; add --keep-partitions" in done.err
    done = pyklient("mirror", *one, *one, *options, "--groups", "billing", "--keep-partitions")
    assert done.code == 2
    assert "--groups works with only one --from" in done.err
    clusters = "--from", broker.bootstrap_servers, "--to", broker.bootstrap_servers
    done = pyklient("offsets", "translate", new_name(), *clusters, "--mirror-group", new_name())
    assert done.code == 2
    assert "(pyklient mirror: --groups)" in done.err
    done = pyklient("audit", *clusters, "nonsense")
    assert done.code == 2
    assert "no topic of the source cluster matches the pattern 'nonsense'; correct the pattern" in done.err


def test_a_translation_says_what_it_has_changed(
    pyklient: Pyklient, broker: Broker, new_name: NewName
) -> None:
    topic, group, mirror_group = new_name(), new_name(), new_name()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(20)])
    where, source = TopicPartition(topic, 0), broker.bootstrap_servers
    with Admin(source) as admin:
        admin.reset_offsets(group, {where: 12}, topics=[where], execute=True)
    with Broker() as target:
        options = {"group_id": mirror_group, "keep_partitions": True, "groups": "no-such-group"}
        with running(source, target.bootstrap_servers, topic, **options) as run:
            until(lambda: (found := run.mirror.metrics()) and found.copied.records == 20, "all records")
        clusters = "--from", source, "--to", target.bootstrap_servers, "--mirror-group", mirror_group
        translated = [
            pyklient("offsets", "translate", group, *clusters, *execute)
            for execute in ([], ["--execute"], ["--execute"])
        ]
        with Admin(source) as admin:
            admin.reset_offsets(group, {where: 5}, topics=[where], execute=True)
        translated.append(pyklient("offsets", "translate", group, *clusters, "--execute"))
    assert [done.code for done in translated] == [0, 0, 0, 0]
    assert [" ".join(done.text.split()[8:]) for done in translated] == [
        "12 - 12",
        "12 - 12",
        "12 12 12 already committed",
        "5 12 5 the group is ahead, so its offset stays",
    ]
    same = f"pyklient: changed 0 offsets of group {group}; 1 offset stayed the same\n"
    assert [done.err for done in translated] == [
        "pyklient: nothing was changed; --execute commits the translated offsets\n",
        f"pyklient: changed 1 offset of group {group}\n",
        same,
        same,
    ]


def test_an_audit_shows_a_difference_and_fails(pyklient: Pyklient, broker: Broker, new_name: NewName) -> None:
    topic = new_name()
    with Broker() as target:
        for servers, count in ((broker.bootstrap_servers, 3), (target.bootstrap_servers, 2)):
            with Producer(servers) as producer:
                for number in range(count):
                    producer.send(topic, b"%d" % number, timestamp_ms=number)
        command = ("audit", "--from", broker.bootstrap_servers, "--to", target.bootstrap_servers, topic)
        different = pyklient(*command)
        equal = pyklient(*command, "--until", "1970-01-01T00:00:00.002Z", "--json")
    assert different.code == 1
    row = different.out.decode().splitlines()[-1]
    assert row.split()[:6] == [topic, "0", "3", "2", "3", "2"]
    assert row.rstrip().endswith("the target has 1 fewer")
    assert equal.code == 0
    assert [(row["partition"], row["source"]["records"], row["equal"]) for row in json.loads(equal.out)] == [
        (0, 2, True)
    ]

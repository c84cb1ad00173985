"""``pyklient top`` and ``groups describe --watch``: what the frames say, on a terminal and in a pipe."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import islice

import pytest

from pyklient import Admin, BrokerConnectionError, ConfigurationError, ConsumerConnector, Producer
from pyklient.broker import Broker
from pyklient.cli.cluster_activity import ActivityReader
from pyklient.cli.live_screen import watch
from pyklient.config import AdminConfig
from tests.cli.conftest import Pyklient
from tests.servers.fixtures import NewName, NewTopic
from tests.system.reading import read_group

_CLEAR = b"\x1b[2J\x1b[H"


@pytest.mark.brokers(min="2.4")
def test_top_tells_ends_lag_and_rates_as_the_broker_does(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, pyklient: Pyklient
) -> None:
    topic, group = new_topic(partitions=3), new_name()
    with Producer(bootstrap) as producer, Admin(bootstrap) as admin:
        producer.send_many(topic, [b"x"] * 100)
        producer.flush()
        read_group(bootstrap, group, topic, 40)
        reader = ActivityReader(admin, [topic], [group])
        first = reader.read()
        producer.send_many(topic, [b"x"] * 50)
        producer.flush()
        read_group(bootstrap, group, topic, 20)
        second = reader.read()
        lag = sum(each.lag for each in admin.group_lag(group).values())
    (before,), (after,) = first.topics, second.topics
    assert (before.partitions, before.end, before.rate, after.end) == (3, 100, None, 150)
    (old,), (new,) = first.groups, second.groups
    assert (old.group, old.topic, old.lag, old.rate, new.lag) == (group, topic, 60, None, 90)
    assert new.lag == lag
    assert after.rate is not None
    assert new.rate == pytest.approx(after.rate * 20 / 50)
    assert new.growth == pytest.approx(after.rate * 30 / 50)
    done = pyklient("top", topic, "-g", group, "-b", bootstrap, "-n", "1", "--json")
    shown = json.loads(done.text)
    assert [(each["topic"], each["end"]) for each in shown["topics"]] == [(topic, 150)]
    assert [(each["group"], each["lag"]) for each in shown["groups"]] == [(group, 90)]


def test_in_a_pipe_the_frames_follow_one_another(
    pyklient: Pyklient, broker: Broker, new_name: NewName
) -> None:
    topic = new_name()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, b"1")
    done = pyklient("top", topic, "-n", "2", "--interval", "0.1")
    assert (done.code, done.err) == (0, "")
    assert done.text.count("topic") >= 2
    rows = [line.split() for line in done.text.splitlines() if line.startswith(topic)]
    assert rows == [[topic, "1", "1", "-"], [topic, "1", "1", "0.0"]]
    assert _CLEAR not in done.out


def test_top_of_a_group_that_does_not_exist_is_an_error(
    pyklient: Pyklient, broker: Broker, new_name: NewName
) -> None:
    done = pyklient("top", "-g", "no-such", "-n", "1")
    assert (done.code, done.out) == (1, b"")
    assert "the brokers do not know these groups: no-such" in done.err


def test_on_a_terminal_each_frame_replaces_the_last(broker: Broker, new_name: NewName) -> None:
    with Admin(broker.bootstrap_servers) as admin:
        for _ in range(30):
            admin.create_topic(new_name(), 1)
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pyklient", "top", "-n", "2", "--interval", "0.1", "-b"]
    environment = {**os.environ, "LINES": "20", "COLUMNS": "100", "TERM": "xterm"}
    with subprocess.Popen([*command, broker.bootstrap_servers], stdout=theirs, env=environment) as running:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
        assert running.wait(60) == 0
    os.close(ours)
    frames = shown.split(_CLEAR)
    assert (len(frames), frames[0]) == (3, b"")
    assert all(len(frame.splitlines()) <= 20 for frame in frames), "a frame fits on the screen"
    assert b"more" in frames[1]


def test_a_group_is_watched_until_the_last_frame(
    pyklient: Pyklient, broker: Broker, new_name: NewName
) -> None:
    topic, group = new_name(), new_name()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"x"] * 3)
    with ConsumerConnector(broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest") as reader:
        list(islice(reader.stream(topic), 2))
        reader.commit_offsets()
        done = pyklient("groups", "describe", group, "--watch", "-n", "2", "--interval", "0.1")
        once = pyklient("groups", "describe", group)
    assert done.code == 0
    frames = re.split(rb"(?m)^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", done.out)
    assert [frame.partition(b"\n")[2] for frame in frames] == [b"", once.out, once.out]
    assert f"{group}: Stable, 1 member" in once.text
    wrong = pyklient("groups", "describe", group, "-n", "2")
    assert (wrong.code, "only together with --watch" in wrong.err) == (2, True)


def test_a_frame_that_cannot_be_read_is_tried_again_unless_it_is_the_first(
    capsys: pytest.CaptureFixture[str],
) -> None:
    away = BrokerConnectionError(
        f"no broker could be reached; {AdminConfig.waiting_option} sets the time to wait"
    )
    shown: list[int] = []
    watch(_script(1, away, 3), shown.append, 0.01, 3)
    assert shown == [1, 3]
    said = "no broker could be reached; --timeout sets the time to wait; trying again"
    assert said in capsys.readouterr().err
    with pytest.raises(BrokerConnectionError):
        watch(_script(away, 2), shown.append, 0.01, 2)
    with pytest.raises(ConfigurationError):
        watch(_script(1, ConfigurationError("wrong")), shown.append, 0.01, 3)


def _script(*steps: int | Exception) -> Callable[[], int]:
    """Return a function that returns or raises each of *steps*."""
    left = iter(steps)

    def read() -> int:
        step = next(left)
        if isinstance(step, Exception):
            raise step
        return step

    return read


@pytest.mark.parametrize("command", [["top"], ["groups", "describe"]])
def test_the_help_has_examples(pyklient: Pyklient, command: list[str]) -> None:
    done = pyklient(*command, "--help")
    assert "--interval" in done.text
    assert "Examples:" in done.text

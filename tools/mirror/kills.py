"""SIGKILLs at random moments for a mirror, its source cluster and its target cluster."""

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from pyklient import Admin, KafkaError, Producer, TopicPartition, read
from pyklient.mirror import audit
from tests.servers.server import Server
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tools.mirror.group_translations import TranslatedGroup
from tools.repository import ROOT

__all__ = ["VICTIMS", "kill_mirror"]

VICTIMS: Final = ("mirror", "source", "target")

_PARTITIONS: Final = 4
_TIMEOUT: Final = 300.0
_POLL: Final = 0.02
_VALUE_SIZE: Final = 300
_OPTIONS: Final = {
    "session_timeout_ms": "1500",
    "heartbeat_interval_ms": "200",
    "zookeeper_session_timeout_ms": "3000",
    # Few bytes for each fetch, so that the mirror is killed in the middle of its work.
    "max_partition_fetch_bytes": "40000",
    "prefetch_max_bytes": "400000",
}


def kill_mirror(
    source: Server,
    target: Server,
    name: str,
    directory: Path,
    *,
    seed: int,
    kills: int,
    records: int,
    victims: Sequence[str] = VICTIMS,
    reading: Mapping[str, str] | None = None,
    say: Callable[[str], object] = print,
) -> list[str]:
    """Mirror *records* records of the new topic *name* while the mirror or one of the two brokers is killed
    *kills* times: one of *victims* each time. Return what is wrong.

    In the end, each partition of the target has all records of the source in their order. Records may be
    there again only after a SIGKILL of the mirror or of the source, and only those behind the last commit.
    An audit finds no difference but these. A group that has committed offsets in the source continues in the
    target, and skips nothing. *reading* has more options of the source.
    """
    rng = random.Random(seed)
    _create(source, name)
    clusters = (
        {"bootstrap_servers": source.bootstrap_servers, **(reading or {})},
        {"bootstrap_servers": target.bootstrap_servers},
    )
    group = TranslatedGroup(*clusters, f"{name}-readers", name)
    command = _command(*clusters, name, directory)
    chosen = [rng.choice(victims) for _ in range(kills)]
    share = records // _PARTITIONS // (kills + 1)
    program = subprocess.Popen(command, cwd=ROOT)
    try:
        for number, victim in enumerate(chosen):
            before = _stored(target, name)
            _send(source, name, range(number * share, (number + 1) * share), rng)
            moment = before + rng.uniform(0.05, 0.95) * share * _PARTITIONS
            group.commit(_ends(source, name), rng)
            _await(program, partial(_reached, target, name, moment), f"record {moment:.0f}")
            say(f"SIGKILL for the {victim} after {_stored(target, name)} records")
            if victim == "mirror":
                program.kill()
                program.wait()
                program = subprocess.Popen(command, cwd=ROOT)
            else:
                broker = source if victim == "source" else target
                broker.kill()
                broker.restart()
            group.look()
        _send(source, name, range(kills * share, (kills + 1) * share), rng)
        ends = _ends(source, name)
        _await(program, lambda: _committed(source, name, reading or {}) == ends, "the last commit")
        program.send_signal(signal.SIGTERM)
        if (code := program.wait(60)) != 128 + signal.SIGTERM:
            return [f"the mirror has ended with the exit code {code}"]
    finally:
        program.kill()
        program.wait()
    repeating = sum(victim != "target" for victim in chosen)
    say("kills: " + ", ".join(f"{chosen.count(each)} of the {each}" for each in victims))
    found = _stored_values(target, name, ends)
    problems = _compare(found, name, ends, repeating, say)
    problems += group.check(found, say)
    return problems + _audited(clusters, name, found, say)


def _command(source: Mapping[str, str], target: Mapping[str, str], name: str, directory: Path) -> list[str]:
    """Return the command that mirrors the topic *name*. Its options are written into *directory*."""
    options = directory / f"{name}.properties"
    lines = {**source, **_OPTIONS}
    options.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")
    words = f"--group {name} --whitelist {name} --keep-partitions --commit-interval 0.2"
    words += f" --groups {name}-readers --group-interval 0.5 --interval 30"
    return [
        *(sys.executable, "-m", "pyklient", "mirror"),
        *("--from", f"@{options}", "--to", target["bootstrap_servers"], *words.split()),
    ]


def _create(source: Server, topic: str) -> None:
    if isinstance(source, ZooKeeperKafka):
        source.create_topic(topic, _PARTITIONS)
        return
    with Admin(source.bootstrap_servers) as admin:
        admin.create_topic(topic, _PARTITIONS)


def _send(source: Server, topic: str, numbers: range, rng: random.Random) -> None:
    """Send records to each partition of *topic*. The values begin with *numbers*, the offsets of the
    records."""
    padding = [b" " + rng.randbytes(_VALUE_SIZE) for _ in range(50)]
    # One request at a time, so that a retry changes no order in a source without idempotence.
    with Producer(
        source.bootstrap_servers,
        compression_type="gzip",
        batch_size=16_000,
        max_in_flight_requests_per_connection=1,
    ) as producer:
        for partition in range(_PARTITIONS):
            values = [b"%d" % each + padding[each % 50] for each in numbers]
            producer.send_many(topic, values, partition=partition)


def _await(program: "subprocess.Popen[bytes]", condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _TIMEOUT
    while not condition():
        if time.monotonic() > deadline or program.poll() is not None:
            raise AssertionError(f"{what} has not come; the mirror's exit code: {program.poll()}")
        time.sleep(_POLL)


def _ends(server: Server, topic: str) -> dict[TopicPartition, int]:
    with Admin(server.bootstrap_servers) as admin:
        return admin.end_offsets(admin.partitions([topic]))


def _stored(target: Server, topic: str) -> int:
    """Return the number of records in *topic*; 0 while it does not exist."""
    try:
        return sum(_ends(target, topic).values())
    except KafkaError:
        return 0


def _reached(target: Server, topic: str, moment: float) -> bool:
    return _stored(target, topic) >= moment


def _committed(source: Server, group: str, reading: Mapping[str, str]) -> dict[TopicPartition, int]:
    """Return the offsets that *group* has committed. An empty result means that they cannot be read now."""
    try:
        if "zookeeper" in reading:
            with Admin(source.bootstrap_servers, zookeeper=reading["zookeeper"]) as admin:
                found = admin.group_offsets(group, coordination="zookeeper")
        else:
            with Admin(source.bootstrap_servers) as admin:
                found = admin.group_offsets(group)
    except KafkaError:
        return {}
    return {partition: each.offset for partition, each in found.items()}


def _stored_values(target: Server, topic: str, partitions: Iterable[TopicPartition]) -> dict[int, list[int]]:
    """Return the records of each partition in the target, as their offsets in the source."""
    found: dict[int, list[int]] = {each.partition: [] for each in partitions}
    for message in read(target.bootstrap_servers, topic):
        found[message.partition].append(int(message.value.split(b" ", 1)[0]))
    return found


def _compare(
    found: Mapping[int, Sequence[int]],
    topic: str,
    ends: Mapping[TopicPartition, int],
    repeating: int,
    say: Callable[[str], object],
) -> list[str]:
    """Return what is wrong with the records *found* in the target, after *repeating* kills that may repeat
    records."""
    problems: list[str] = []
    repeated = 0
    for partition, values in found.items():
        end = ends[TopicPartition(topic, partition)]
        problems += _wrong_order(partition, values, end, repeating)
        repeated += len(values) - end
    say(f"{sum(ends.values())} records, {repeated} of them twice")
    return problems


def _audited(
    clusters: tuple[Mapping[str, str], Mapping[str, str]],
    topic: str,
    found: Mapping[int, Sequence[int]],
    say: Callable[[str], object],
) -> list[str]:
    """Return what an audit says that it should not: partitions without repeated records are equal."""
    problems: list[str] = []
    rows = audit(*clusters, topic)
    for row in rows:
        assert row.partition is not None
        more = len(found[row.partition]) - row.source.records
        expected = f"the target has {more} more" if more else ""
        if row.difference != expected:
            problems.append(f"partition {row.partition}: the audit says {row.difference!r}, not {expected!r}")
    say("audit: " + ", ".join(row.difference or "equal" for row in rows))
    return problems


def _wrong_order(partition: int, values: Sequence[int], end: int, repeating: int) -> list[str]:
    """Return what is wrong with *values*, the records of *partition*, whose source has the values up to
    *end*."""
    highest, returns = -1, 0
    for before, value in zip([-1, *values], values, strict=False):
        if value > highest + 1:
            return [f"partition {partition}: after record {highest} comes record {value}"]
        if value != before + 1:
            returns += 1
        highest = max(highest, value)
    if highest + 1 != end:
        return [f"partition {partition} ends with record {highest}, and the source with {end - 1}"]
    if returns > repeating:
        return [f"partition {partition} has records again {returns} times, after {repeating} kills"]
    return []

"""Measures how fast mirrors copy a topic, and how much processor time they take: pyklient's, which passes
batches on or decodes them, and Kafka's MirrorMaker of 2.8.2."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pyklient import Admin, KafkaError, Producer
from tests.servers.java import java_command
from tests.servers.maven import kafka_libs
from tools.repository import ROOT

__all__ = ["measure"]

_PARTITIONS: Final = 4
_TIMEOUT: Final = 300.0
_CODEC: Final = "lz4"
_MIRROR_MAKER: Final = "2.8.2"


def measure(
    source: str, target: str, records: int, directory: Path, *, say: Callable[[str], object] = print
) -> None:
    """Mirror a topic of *records* records from *source* to *target*, by each mirror in turn, each to a
    cluster without this topic. Say how long each took."""
    writing = directory / "target.properties"
    writing.write_text(f"bootstrap.servers={target}\ncompression.type={_CODEC}\n")
    fill(source, "speed", records)
    mirror = [sys.executable, "-m", "pyklient", "mirror", "-q", "--from", source, "--whitelist", "speed"]
    programs = {
        "pyklient, batches passed on": [*mirror, "--to", target, "-g", "passed", "--keep-partitions"],
        "pyklient, records decoded": [*mirror, "--to", f"@{writing}", "-g", "decoded"],
        f"Kafka's MirrorMaker {_MIRROR_MAKER}": _mirror_maker(source, target, directory),
    }
    for name, command in programs.items():
        with Admin(target) as admin:
            if "speed" in admin.topics():
                admin.delete_topic("speed")
            admin.create_topic("speed", _PARTITIONS)
        seconds, processor = run(command, target, "speed", records)
        say(f"{name}: {records / seconds:,.0f} records/s, {processor:.1f} s of processor time")


def fill(source: str, topic: str, records: int) -> None:
    """Create *topic*, and send *records* records with keys."""
    with Admin(source) as admin:
        admin.create_topic(topic, _PARTITIONS)
    values = [b"%09d" % number * 11 for number in range(1_000)]
    keys = [b"key-%d" % number for number in range(1_000)]
    with Producer(source, compression_type=_CODEC) as producer:
        for _ in range(records // len(values)):
            producer.send_many(topic, values, keys)


def run(command: Sequence[str], target: str, topic: str, records: int) -> tuple[float, float]:
    """Run the mirror *command* until *topic* has *records* records in *target*. Return the seconds since its
    first record, and the seconds of processor time of the whole run."""
    program = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        began, deadline, stored = 0.0, time.monotonic() + _TIMEOUT, 0
        first = 0
        with Admin(target) as admin:
            while stored < records:
                assert time.monotonic() < deadline, f"{stored} of {records} records are copied"
                time.sleep(0.02)
                try:
                    stored = sum(admin.end_offsets(admin.partitions([topic])).values())
                except KafkaError:
                    continue
                if stored and not began:
                    began, first = time.monotonic(), stored
        ended = time.monotonic()
        program.send_signal(signal.SIGTERM)
        _, _, usage = os.wait4(program.pid, 0)
        program.returncode = 0
    finally:
        program.kill()
    # The records that were there at the first look are not in the time, so they are left out of the rate.
    seconds = (ended - began) * records / max(records - first, 1)
    return seconds, usage.ru_utime + usage.ru_stime


def _mirror_maker(source: str, target: str, directory: Path) -> list[str]:
    reading, writing = directory / "consumer.properties", directory / "producer.properties"
    reading.write_text(f"bootstrap.servers={source}\ngroup.id=java\nauto.offset.reset=earliest\n")
    writing.write_text(
        f"bootstrap.servers={target}\ncompression.type={_CODEC}\nbatch.size=500000\nlinger.ms=5\n"
    )
    arguments = ["--consumer.config", str(reading), "--producer.config", str(writing), "--whitelist", "speed"]
    return java_command(kafka_libs(_MIRROR_MAKER), "kafka.tools.MirrorMaker", *arguments)

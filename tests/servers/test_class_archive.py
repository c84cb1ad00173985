"""JVMs of tests take their classes from an archive."""

import subprocess
from pathlib import Path

import pytest

from tests.servers.class_archive import sharing_options
from tests.servers.class_recording import record_kafka
from tests.servers.java import java_command
from tests.servers.kafka import NEWEST
from tests.servers.maven import kafka_libs


@pytest.mark.java
def test_a_broker_takes_its_classes_from_the_archive() -> None:
    record_kafka()
    libs = kafka_libs(NEWEST)
    command = java_command(libs, "kafka.Kafka", "/nowhere", options=("-Xlog:class+load:stdout",))
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    kafkas = [line for line in ran.stdout.splitlines() if " org.apache.kafka." in line]
    assert kafkas
    assert all("shared objects file" in line for line in kafkas if "Lambda" not in line)


def test_without_an_archive_a_jvm_gets_no_option(tmp_path: Path) -> None:
    assert sharing_options(tmp_path / "classes.jsa") == ()


@pytest.mark.java
def test_an_archive_that_does_not_fit_is_passed_over_without_a_word(tmp_path: Path) -> None:
    archive = tmp_path / "classes.jsa"
    archive.write_bytes(b"not an archive")
    options = sharing_options(archive)
    command = java_command(kafka_libs(NEWEST), "kafka.Kafka", options=options)
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "archive" not in ran.stdout + ran.stderr
    assert "USAGE" in ran.stdout + ran.stderr

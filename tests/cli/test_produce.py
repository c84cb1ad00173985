"""``produce`` that fails half-way: it stops, and reports which lines are stored."""

import contextlib
import os
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.conftest import Pyklient
from tests.servers.fixtures import NewName


@pytest.fixture
def small(pyklient: Pyklient, new_name: NewName) -> str:
    """Create a topic that does not accept records above 1,000 bytes."""
    topic = new_name()
    assert pyklient("topics", "create", topic, "--set", "max.message.bytes=1000").code == 0
    return topic


def test_a_line_that_is_no_record_fails_by_its_number_after_those_before_it(
    pyklient: Pyklient, new_name: NewName
) -> None:
    topic = new_name()
    done = pyklient("produce", topic, "--json", stdin=b'{"value":"a"}\n{"vlaue":"b"}\n{"value":"c"}\n')
    assert done.code == 1
    assert done.err.startswith("pyklient: line 2 is not a record: unknown field 'vlaue'")
    assert done.err.endswith("; 1 line is stored\n")
    done = pyklient("produce", topic, "--json", stdin=b"{}\n{}\n}\n")
    assert (done.code, done.err) == (
        1,
        "pyklient: line 3 is not JSON: Expecting value at character 1; 2 lines are stored\n",
    )
    done = pyklient("produce", topic, "-k", "|", stdin=b"ab\n")
    assert (done.code, done.err) == (
        1,
        "pyklient: line 1 has no separator '|' between key and value; no line is stored\n",
    )
    done = pyklient("produce", topic, "-k", r"\t", stdin=b"a\tb\n")
    assert r"no separator '\t' between key and value; for a tab, pass $'\t';" in done.err
    assert pyklient("consume", topic, "--to-end").text == "a\n\n\n"


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        ('"partition": 9', "partition 9 of topic"),
        ('"partition": -1', "partition"),
        ('"partition": 99999999999999999999', "partition"),
        ('"timestamp_ms": 99999999999999999999', "timestamp"),
        ('"timestamp_ms": -5', "timestamp"),
    ],
)
def test_a_line_that_cannot_be_sent_fails_by_its_number(
    pyklient: Pyklient, new_name: NewName, field: str, complaint: str
) -> None:
    done = pyklient("produce", new_name(), "--json", stdin=b"{}\n" + f"{{{field}}}\n".encode())
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("pyklient: line 2: ")
    assert complaint in done.err
    assert done.err.endswith("; 1 line is stored\n")


def test_lines_that_the_broker_refuses_are_named_and_the_others_are_stored(
    pyklient: Pyklient, small: str
) -> None:
    done = pyklient("produce", small, "-X", "linger_ms=2000", stdin=b"1\n2\n" + b"x" * 2_000 + b"\n4\n")
    assert done.code == 1
    assert done.err.startswith("pyklient: line 3: ")
    assert "MESSAGE_TOO_LARGE" in done.err
    assert done.err.endswith("; 3 lines are stored, not confirmed: 3\n")
    assert done.err.count("\n") == 1
    assert pyklient("consume", small, "--to-end").text == "1\n2\n4\n"


def test_many_lines_that_failed_are_cut_short(pyklient: Pyklient, small: str) -> None:
    together = ["-X", "linger_ms=2000"]
    large = b"x" * 2_000 + b"\n"
    done = pyklient("produce", small, *together, stdin=large * 2 + b"small\n" + (b"small\n" + large) * 9)
    assert done.err.endswith("; 10 lines are stored, not confirmed: 1-2, 5, 7, 9, 11, 13, 15, 17 and more\n")


def test_nothing_more_is_read_once_a_line_has_failed(pyklient: Pyklient, small: str, tmp_path: Path) -> None:
    source = tmp_path / "source"
    os.mkfifo(source)

    def write_for_ever() -> None:
        with source.open("wb", buffering=0) as file, contextlib.suppress(BrokenPipeError):
            file.write(b"x" * 2_000 + b"\n")
            while True:
                file.write(b"small\n")

    writer = Thread(target=write_for_ever, daemon=True)
    writer.start()
    done = pyklient("produce", small, "-f", str(source), "-X", "batch_size=900")
    writer.join(30)
    assert not writer.is_alive()
    assert done.code == 1
    assert done.err.startswith("pyklient: line 1: ")
    assert done.err.endswith(" stored, not confirmed: 1\n")


def test_a_line_without_an_end_is_not_taken_into_memory(pyklient: Pyklient, new_name: NewName) -> None:
    limit = ["-X", "max_request_size=1000"]
    done = pyklient("produce", new_name(), *limit, stdin=b"a\n" + b"x" * 8_001)
    assert (done.code, done.err) == (1, "pyklient: line 2 is longer than 8,000 bytes; 1 line is stored\n")


def committed(pyklient: Pyklient, topic: str) -> bytes:
    done = pyklient("consume", topic, "--to-end", "-X", "isolation_level=read_committed")
    assert done.code == 0, done.err
    return done.out


def test_lines_are_committed_in_transactions(pyklient: Pyklient, new_name: NewName) -> None:
    topic = new_name()
    given = ("produce", topic, "--transactional-id", topic, "--transaction-size", "2")
    done = pyklient(*given, stdin=b"a\nb\nc\nd\ne\n")
    assert (done.code, done.err) == (0, f"5 messages to {topic}\n")
    assert committed(pyklient, topic) == b"a\nb\nc\nd\ne\n"
    done = pyklient(*given, "--json", stdin=b'{"value":"f"}\n{"value":"g"}\n{"value":"h"}\nwrong\n')
    assert done.code == 1
    assert done.err.startswith("pyklient: line 4 is not JSON")
    assert done.err.endswith("; 2 lines were committed\n")
    assert committed(pyklient, topic) == b"a\nb\nc\nd\ne\nf\ng\n"


def test_a_line_that_cannot_be_stored_aborts_its_transaction_alone(pyklient: Pyklient, small: str) -> None:
    given = ("produce", small, "--transactional-id", small, "--transaction-size", "2")
    done = pyklient(*given, stdin=b"a\nb\nc\n" + b"d" * 2_000 + b"\ne\n")
    assert done.code == 1
    assert done.err.startswith("pyklient: the transaction of the lines 3 to 4 was not committed: ")
    assert done.err.endswith("; 2 lines were committed\n")
    assert committed(pyklient, small) == b"a\nb\n"

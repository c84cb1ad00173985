"""docs/failover.md, step by step: the commands of the page move a group to another cluster, and back. A group
also continues if the first cluster is lost."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyklient import Admin, ConsumerConnector, Producer, TopicPartition
from pyklient.broker import Broker
from tests.docs.markdown import blocks
from tests.mirror.running import stored, until
from tools.repository import ROOT

_PAGE = ROOT / "docs" / "failover.md"
_HALF_PAST_EIGHT = 1_740_817_800_000
"""2025-03-01T08:30:00Z, in the hour that the page audits."""


class _Commands:
    """The commands of the page, in their order, for two brokers."""

    def __init__(self, east: Broker, west: Broker) -> None:
        self._servers = {"east:9092": east.bootstrap_servers, "west:9092": west.bootstrap_servers}
        shown = "\n".join(block.text for block in blocks(_PAGE) if block.language == "console")
        lines = shown.replace("\\\n", " ").splitlines()
        self.left = [line.removeprefix("$ ") for line in map(str.strip, lines) if line.startswith("$ ")]

    def next(self, expected: str) -> list[str]:
        """Return the arguments of the next command, which begins with *expected*."""
        command = self.left.pop(0)
        assert command.startswith(f"pyklient {expected}"), command
        for name, servers in self._servers.items():
            command = command.replace(name, servers)
        return [sys.executable, "-m", "pyklient", *shlex.split(command)[1:]]

    def run(self, expected: str) -> str:
        """Run the next command, and return what it prints."""
        done = subprocess.run(self.next(expected), capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @contextmanager
    def running(self, expected: str) -> Iterator[None]:
        """Run the next command during the block, and end it with SIGTERM."""
        process = subprocess.Popen([*self.next(expected), "--group-interval", "0.2"])
        try:
            yield
            process.terminate()
            assert process.wait(60) == 128 + 15
        finally:
            process.kill()
            process.wait()


def produced(broker: Broker, first: int, stop: int) -> None:
    """Send the invoices *first* to *stop* - 1 to both partitions."""
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(first, stop):
            producer.send(
                "invoices", b"%d" % number, partition=number % 2, timestamp_ms=_HALF_PAST_EIGHT + number
            )


def billed(broker: Broker, count: int) -> list[int]:
    """Read *count* invoices as a member of the group, and commit them."""
    with ConsumerConnector(
        broker.bootstrap_servers, group_id="billing", auto_offset_reset="earliest", consumer_timeout_ms=20_000
    ) as member:
        messages = iter(member.stream("invoices"))
        found = [int(next(messages).value or b"") for _ in range(count)]
        member.commit_offsets()
    return found


def offsets(broker: Broker) -> dict[TopicPartition, int]:
    """Return the committed offsets of the group."""
    with Admin(broker.bootstrap_servers) as admin:
        return {each: position.offset for each, position in admin.group_offsets("billing").items()}


def test_the_page_moves_a_group_to_another_cluster_and_back(tmp_path: Path) -> None:
    with Broker() as east, Broker() as west:
        commands = _Commands(east, west)
        with Admin(east.bootstrap_servers) as admin:
            admin.create_topic("invoices", 2)
        with commands.running("mirror --from"):
            produced(east, 0, 600)
            seen = billed(east, 250)
            until(lambda: stored(west.bootstrap_servers, "invoices") == 600, "all records in the copy")
            until(lambda: sum(offsets(west).values()) == 250, "the offsets of the group in the copy")
            assert "equal" in commands.run("audit")
            seen += billed(east, 100)
        assert "equal" in commands.run("audit")
        commands.run("offsets translate billing")
        assert sum(offsets(west).values()) == 350
        seen += billed(west, 250)
        assert sorted(seen) == list(range(600))
        produced(west, 600, 700)
        seen += billed(west, 30)
        commands.run("topics delete invoices")
        with commands.running("mirror --from"):
            until(lambda: stored(east.bootstrap_servers, "invoices") == 700, "all records at home")
            until(lambda: sum(offsets(east).values()) == 630, "the offsets of the group at home")
        seen += billed(east, 70)
        assert sorted(seen) == list(range(700))
        assert not commands.left


def test_the_page_lets_a_group_continue_in_the_copy_of_a_lost_cluster() -> None:
    with Broker() as east, Broker() as west:
        commands = _Commands(east, west)
        with Admin(east.bootstrap_servers) as admin:
            admin.create_topic("invoices", 2)
        with commands.running("mirror --from"):
            produced(east, 0, 600)
            seen = billed(east, 250)
            until(lambda: stored(west.bootstrap_servers, "invoices") == 600, "all records in the copy")
            until(lambda: sum(offsets(west).values()) == 250, "the offsets of the group in the copy")
            seen += billed(east, 100)
            east.close()
        translated = sum(offsets(west).values())
        assert translated in (250, 350)  # of the first commit, or of both
        seen += billed(west, 600 - translated)
    assert set(seen) == set(range(600))
    assert len(seen) == 600 + 350 - translated
